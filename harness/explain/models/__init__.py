"""Which models do the demonstrations compare the engine with?

Small models of foreign systems (a broker, a wide-row table) and of mechanisms without their safeguard (snapshots
without barriers, flow control without credits). Only `sinkproof explain` and tests use them.
May import: reference_engine, sink_adapters and chaos.
"""
