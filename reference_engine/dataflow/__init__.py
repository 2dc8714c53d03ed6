"""Which rows, barriers and watermarks does a subtask send on, and when does it take its snapshot?

`Subtask` (subtask.py) is a pure state machine: an event in, effects out. barrier_alignment.py and unaligned_barriers.py
decide when it takes its snapshot; job_graph.py lays out the subtasks. May import: chaos, sink_adapters.protocol.
"""
