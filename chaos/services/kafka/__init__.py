"""Kafka brokers: their jars, their settings, clusters on this machine and clusters that are given by address."""
