"""What does one subtask do with rows, barriers and watermarks?

`Subtask` (subtask.py) is a pure state machine: an event in, effects out. barrier_alignment.py and unaligned_barriers.py
decide when it takes its snapshot; job_graph.py lays out the subtasks. May import: chaos, sink_adapters.protocol.
"""
