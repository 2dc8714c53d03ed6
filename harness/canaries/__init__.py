"""Sinks that are wrong on purpose, each beside its correct control."""
