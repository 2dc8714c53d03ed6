"""When is a checkpoint complete, where is it kept, and how is a job restored from it?

`Coordinator` (coordinator.py) is the state machine; the storages keep its records; restart_strategy.py decides when the
next generation begins, restore_and_rescale.py with which states. May import: dataflow, chaos, sink_adapters.protocol.
"""
