"""Closed connection: the service closes it, as it does with idle connections, at the moment of a request. What is sent
is lost, and the end of the connection comes where the reply is expected: an empty read, and no error.

Only where the harness itself intercepts what is sent: requests of Python over TCP, by `socket` or `ssl`.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.requests.socket_points import POINT, Closed


def inject(shell: FaultableShell) -> None:
    raise Closed("injected: the service has closed the connection")


CLOSED = FaultKind[FaultableShell](
    "closed",
    "connection closed: a request is lost, and the connection ends where its reply is expected",
    applies=lambda actor, point: actor.startswith("sink[") and point == POINT,
    inject=inject,
)
