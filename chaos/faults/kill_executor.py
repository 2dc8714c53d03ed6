"""The JVM that hosts an attempt's worker dies by SIGKILL: an executor, or on a local master Spark itself.

Healed by another executor, or by another driver.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

KILL_EXECUTOR = FaultKind[FaultableShell](
    "kill-executor",
    "executor crash: the executor that hosts this attempt is killed, with every worker and attempt in it",
    applies=lambda actor, point: "[" in actor,
    inject=lambda shell: shell.kill_executor(),
)
