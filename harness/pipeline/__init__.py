"""How does `sinkproof run` run a pipeline, from the first command to the last row?

`run` (pipeline_runner.py) starts or resumes one job in one output folder; the recipes say what the job is.
May import: reference_engine, sink_adapters, chaos, reports; nothing of certification.
"""
