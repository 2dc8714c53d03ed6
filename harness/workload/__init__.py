"""Which rows go into the sink, in which job?

`EVERY_JOB` (jobs.py, by the names of job_names.py) has the small jobs that certify sinks, rows.py makes their rows and
inputs. `Ledger` (ledger.py) records what the sources held: what the oracle compares the committed view with.
May import: reference_engine, sink_adapters, chaos.
"""
