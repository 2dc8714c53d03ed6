"""What do the demonstrations compare the engine with?

Small models of foreign systems (a broker, a wide-row table) and of mechanisms without their safeguard (snapshots without
barriers, flow control without credits). Nothing but `sinkproof explain` and its tests uses them.
"""
