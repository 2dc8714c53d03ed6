"""How can a sink use a target so that a replay does no harm?

One file per strategy: two_phase, write_ahead, idempotent, masked, plain. Each is a `Sink` around a target, of which it
requires the narrowest protocol that it needs. `adapt` (adapt_to_sink.py) chooses the strategy for a user's target.
May import: the sink protocol.
"""
