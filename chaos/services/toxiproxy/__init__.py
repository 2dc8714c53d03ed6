"""Toxiproxy: a real proxy that breaks TCP connections, its API, and the network it makes in front of a service."""
