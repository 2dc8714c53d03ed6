"""A checkpointing engine with Flink's semantics: a pure core, and shells that act for it."""

if __name__ != "sinkproof.reference_engine":
    raise ImportError(f"import this package as sinkproof.reference_engine, not as {__name__}")
