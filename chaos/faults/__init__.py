"""Fault kinds, one a file: what it does, where it can strike, what heals it."""
