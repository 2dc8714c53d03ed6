"""How does one run of one schedule go?

`ScheduleRunner` (schedule_runner.py) runs one schedule on one subject in the simulated shell and returns a `RunResult`;
process_runner.py and spark_runner.py do the same with real processes and on Spark.
May import: judging, subject, workload and everything below.
"""
