"""How does a pipeline that people run go, from the first command to the last row?

`run_pipeline` (pipeline_runner.py) starts or resumes one job in one output folder; the recipes say what the job is.
May import: reference_engine, sink_adapters, chaos, reports; nothing of certification.
"""
