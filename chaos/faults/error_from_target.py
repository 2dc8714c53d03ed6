"""The target returns an error: before the effect (a `.before` point, a file call) or after it (the reply is lost)."""

from errno import EIO

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.points import SINK_POINTS, is_system_call


def inject(shell: FaultableShell) -> None:
    raise OSError(EIO, "injected: the target did not answer")


ERROR = FaultKind[FaultableShell](
    "error",
    "failed request: the call to the target raises OSError; at an `.after` point its effect has happened",
    applies=lambda actor, point: actor.startswith("sink[") and (point in SINK_POINTS or is_system_call(point)),
    inject=inject,
)
