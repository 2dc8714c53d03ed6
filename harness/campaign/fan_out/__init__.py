"""How do the schedules of a campaign run as Spark tasks, on the executors of a cluster?

fan_out_cluster.py starts the driver and waits for executors; slot_hub.py, in the driver, offers many long tasks, and
passes messages between campaigns and slots. Each task is a slot (slot_task.py), which forks the same worker processes
as workers/ does on one machine. spark_workers.py is a campaign's side.
May import: workers, and what it may import.
"""
