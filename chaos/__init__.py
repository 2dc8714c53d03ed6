"""What can go wrong, where, and how is it made to happen?

`Schedule` (schedule.py) is the main type: which faults are injected at which points. faults/ has one module per fault
kind, messages/ breaks single broker messages, requests/ what Python sends over TCP, processes/ forks and kills
processes, services/ runs and breaks external systems, shared/ has state that survives a SIGKILL, system_calls/ strikes
any program before its system calls. crash_closure.py covers every sequence of crashes. May import: chaos only.
"""

if __name__ != "sinkproof.chaos":
    raise ImportError(f"import this package as sinkproof.chaos, not as {__name__}")
