"""Cassandra nodes: their jars, their settings, and a cluster on this machine's loopback."""
