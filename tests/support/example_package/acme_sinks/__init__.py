"""A package of others that registers a sink, a fault and a service."""
