"""How does a checkpointing engine with Flink's semantics work?

A pure core (checkpointing, dataflow), inputs, and shells that carry out its effects: simulated, process, spark.
May import: chaos and the sink protocol, never a concrete sink.
"""

if __name__ != "sinkproof.reference_engine":
    raise ImportError(f"import this package as sinkproof.reference_engine, not as {__name__}")
