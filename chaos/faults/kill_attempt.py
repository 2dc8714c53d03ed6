"""One attempt, or the coordinator alone, dies by SIGKILL. Healed by the next generation."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

KILL = FaultKind[FaultableShell](
    "kill",
    "process crash: this process alone is killed; the others run until the failure is detected",
    inject=lambda shell: shell.kill_actor(),
)
