"""Was anything lost, repeated, early or torn?

`judge` (oracle.py) compares the ledger with what `Observer` (observer.py) read; fault_allowances.py takes out what an
injected fault excuses; `Verdict` (verdict.py) is UPHELD, VIOLATED or UNKNOWN.
May import: subject, workload, and the engine's records; the oracle itself imports neither engine nor adapters.
"""
