"""One sink attempt is suspended (SIGSTOP), replaced, and later resumes where it was: a zombie.

Healed by fencing, if at all.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

STOP = FaultKind[FaultableShell](
    "stop",
    "zombie: this process is suspended, replaced, and later resumes",
    applies=lambda actor, point: actor.startswith("sink["),
    inject=lambda shell: shell.stop_actor(),
    suspends=True,
)
