"""Does the certifier see what it must see?

Sinks that are wrong on purpose, each beside its correct control; catalogue.py lists them. `try_canary` (conviction.py)
decides whether one is convicted of its own sin, search.py runs its campaign. May import: campaign and everything below.
"""
