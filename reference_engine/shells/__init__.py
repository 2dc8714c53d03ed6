"""Which process runs the effects of the pure core, and under which time: the shells simulated, process and spark.

carry_out_effects.py is the table from effect to action that all three share; `Job` (job.py) is what a shell runs.
May import: checkpointing, dataflow, inputs, chaos, sink_adapters.protocol.
"""
