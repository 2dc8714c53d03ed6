"""The Spark shell: one long-lived PySpark job whose tasks host the subtasks, real sockets, real deaths.

driver_process.py starts the session and the tasks; keeper.py keeps the coordinator's listening socket and forks coordinators
(coordinator_process.py); each task is a supervisor (task_supervisor.py) that forks attempts (attempt_process.py), which exchange
Arrow batches and barriers over channels.py. control_messages.py is how everybody talks to the coordinator.
"""
