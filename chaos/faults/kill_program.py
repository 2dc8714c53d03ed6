"""A program that a sink has started is killed by SIGKILL before a change outside, and the sink lives: its parent sees a
status by which it says that it was killed. The kernel does so where memory runs out.

At a call of the sink's own process, it dies itself.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.points import is_system_call


def inject(shell: FaultableShell) -> None:
    """No shell injects it: the watch of the system calls does (chaos/system_calls/supervisor.py)."""


KILL_PROGRAM = FaultKind[FaultableShell](
    "kill-program",
    "program killed: a program that the sink has started dies by SIGKILL, and the sink lives",
    applies=lambda actor, point: actor.startswith("sink[") and is_system_call(point),
    inject=inject,
)
