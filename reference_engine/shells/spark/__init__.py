"""How does a job run for real: on Spark, over sockets, with processes that are killed?

driver_process.py starts the session and one task per subtask. Each task is a `Supervisor` (task_supervisor.py) that
forks attempts (attempt_process.py), which exchange Arrow batches and barriers (channels.py). coordinator_parent.py
keeps the coordinator's listening socket and forks coordinators (coordinator_process.py).
May import: the common modules of the shells, checkpointing, dataflow, chaos, sink_adapters.protocol.
"""
