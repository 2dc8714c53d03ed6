"""`sinkproof explain`: every row of the semantics, shown on the running engine.

A demonstration runs small jobs under virtual time and says what came of them. Nothing in it is told from memory: every
number and every row in its sentences was observed in the run just done, and its checks fail if the engine stops doing
what the row says. `rows.py` lists the rows and where each is; `recorded_job.py` runs a job and writes down what happens.
"""
