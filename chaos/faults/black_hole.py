"""A request is lost on its way, and the connection does not end: its client waits for a reply that never comes.

Healed as a network heals once the client has given up: whatever it sends by another connection arrives. An attempt that
waits without a timeout is killed after a while, as by the time limits of an engine.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.silent_service import applies


def inject(shell: FaultableShell) -> None:
    """No shell injects it: the watch of the system calls does (chaos/system_calls/supervisor.py)."""


BLACK_HOLE = FaultKind[FaultableShell](
    "black-hole",
    "black hole: a request is lost on its way, and nothing comes back until the client gives up",
    applies=applies,
    inject=inject,
)
