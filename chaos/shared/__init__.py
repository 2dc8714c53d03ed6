"""How do processes exchange data that survives the SIGKILL of its writer?

Files and shared memory, one kind per module: `ArmedFaults`, `Journal` and `PointCounts` (points passed), `EventLog`.
May import: chaos only.
"""
