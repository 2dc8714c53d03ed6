"""What goes into the sink?

`JobSpec` values (jobs.py) are the small jobs that certify sinks, rows.py makes their rows, and `Ledger` (ledger.py)
keeps what the sources really held: the truth that the oracle compares the world with.
May import: reference_engine, sink_adapters, chaos.
"""
