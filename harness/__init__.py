"""sinkproof certifies that a sink delivers every row exactly once, by crashing it everywhere it can crash."""

if __name__ != "sinkproof":
    raise ImportError(f"import this package as sinkproof, not as {__name__}")
