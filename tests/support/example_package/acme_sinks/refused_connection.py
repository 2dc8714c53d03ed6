"""A fault: the target refuses the connection. Needs no healing: the attempt fails and is replaced."""

from __future__ import annotations

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell


def inject(shell: FaultableShell) -> None:
    raise ConnectionRefusedError("injected: the target refused the connection")


REFUSE = FaultKind[FaultableShell](
    "refuse",
    "refused connection: the call raises ConnectionRefusedError",
    applies=lambda actor, point: actor.startswith("sink[") and point == "notify_complete.before",
    inject=inject,
)
