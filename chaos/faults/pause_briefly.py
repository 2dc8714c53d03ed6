"""Process pause: one sink attempt is suspended for less than the failure detector's timeout; the others run meanwhile.

Needs no healing. Two subtasks of a sink run concurrently, and each may find the other one's work half done.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

PAUSE = FaultKind[FaultableShell](
    "pause",
    "process pause: this process is suspended for a moment while the others run; it is not replaced",
    applies=lambda actor, point: actor.startswith("sink["),
    inject=lambda shell: shell.pause_actor(),
    suspends=True,
)
