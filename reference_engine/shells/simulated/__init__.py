"""How does a whole job run in one process, under virtual time?

`Simulation` (simulation.py) delivers events and carries out effects; `FaultInjector` (fault_injection.py) strikes
actors, `EngineFaults` (engine_faults.py) the engine. May import: the shells' common modules, checkpointing, dataflow.
"""
