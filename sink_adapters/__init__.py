"""The sink protocol, the strategies, the targets, and the registry of valid pairs."""

if __name__ != "sinkproof.sink_adapters":
    raise ImportError(f"import this package as sinkproof.sink_adapters, not as {__name__}")
