"""How do other processes share the runs of a campaign?

`WorkerPool` (worker_pool.py) gives schedules to `PoolWorker` processes and returns results in the order of the
schedules; process_workers.py and simulated_workers.py say when such processes start and what they run.
May import: execution, exploration and everything below.
"""
