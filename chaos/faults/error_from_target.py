"""The target returns an error: before the effect (a `.before` point, a file call) or after it (the reply is lost)."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.points import SINK_POINTS


def inject(shell: FaultableShell) -> None:
    raise OSError("injected: the target did not answer")


ERROR = FaultKind[FaultableShell](
    "error",
    "failed request: the call to the target raises OSError; at an `.after` point its effect has happened",
    applies=lambda actor, point: point in SINK_POINTS and actor.startswith("sink["),
    inject=inject,
)
