"""How can a sink use a target so that a replay does no harm?

One file per strategy: two_phase, write_ahead, idempotent, masked, plain. Each asks of its target the narrowest protocol
that it needs. May import: the sink protocol.
"""
