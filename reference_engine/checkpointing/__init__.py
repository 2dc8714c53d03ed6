"""When is a checkpoint complete, where is it kept, and how does a job come back from it?

`Coordinator` (coordinator.py) is the state machine; the storages keep its records; restart_strategy.py and
restore_and_rescale.py say when and with which states the next generation begins. May import: dataflow's key groups.
"""
