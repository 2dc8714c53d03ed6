"""How does a whole job run in one process, under virtual time?

`Simulation` (simulation.py) delivers events and carries out effects. Its `FaultInjector` decides when a fault is
injected; `ActorFaults` and `EngineFaults` change the run, as far as the protocol `FaultedJob` lets them.
May import: the common modules of the shells, checkpointing, dataflow, chaos, sink_adapters.protocol.
"""
