"""Does a foreachBatch function deliver exactly once?

`certify_function` crashes it at every line under a simulated Structured Streaming, then kills the driver of a real
query. batch_state_machine.py is the streaming engine's order of batch, function, offsets and commits.
May import: campaign and everything below.
"""
