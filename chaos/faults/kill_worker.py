"""The process that hosts an attempt dies by SIGKILL, and the attempt with it. Healed by another worker."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

KILL_WORKER = FaultKind[FaultableShell](
    "kill-worker",
    "worker crash: the worker that hosts this attempt is killed, and the attempt with it",
    applies=lambda actor, point: "[" in actor,
    inject=lambda shell: shell.kill_worker(),
)
