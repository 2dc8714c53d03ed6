"""Half of the bytes of a write to a file are written, and the call says so, as on a disk that is about to be full.

Healed by writing the rest. A kill at the next call is a large write that a death has cut in the middle.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.points import call_of
from sinkproof.chaos.system_calls.outward_calls import CUT


def inject(shell: FaultableShell) -> None:
    """No shell injects it: the watch of the system calls does (chaos/system_calls/supervisor.py)."""


SHORT_WRITE = FaultKind[FaultableShell](
    "short-write",
    "short write: half of the bytes are written, and the call says so",
    applies=lambda actor, point: actor.startswith("sink[") and call_of(point) in CUT,
    inject=inject,
)
