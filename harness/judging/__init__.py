"""Was any row lost, repeated, early or torn?

`judge` (oracle.py) compares the ledger with what `Observer` (observer.py) read; fault_allowances.py removes anomalies
that an injected fault excuses; `Verdict` (verdict_and_exit_codes.py) is UPHELD, VIOLATED or UNKNOWN.
coordinator_rules.py checks the engine itself.
May import: subject, workload, reference_engine, chaos, reports.document; the oracle only workload.ledger.
"""
