"""Points, faults, schedules, processes: how things are broken on purpose. Knows nothing else of ours."""

if __name__ != "sinkproof.chaos":
    raise ImportError(f"import this package as sinkproof.chaos, not as {__name__}")
