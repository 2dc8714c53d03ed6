"""What does each row of the semantics look like on the running engine?

`demonstrate(row)` (semantics_rows.py) runs the scenes of the row, each a small job in the simulated shell, and returns
a `Demonstration`. Every number and row in its sentences was observed in that run; its checks fail if the engine stops
doing what the row says. small_jobs.py has the jobs, timeline.py their timelines, models/ what they are compared with.
May import: execution, table and everything below.
"""
