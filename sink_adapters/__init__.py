"""What does the engine expect of a sink, and which ways of writing to which target keep that promise?

`Sink` (protocol.py) is what the engine sees. `strategies/` use a target through a narrow protocol; files, memory, kafka
and cassandra are the targets. registry.py lists the valid pairs of strategy and target.
May import: nothing of sinkproof but this package.
"""

if __name__ != "sinkproof.sink_adapters":
    raise ImportError(f"import this package as sinkproof.sink_adapters, not as {__name__}")
