"""Unavailable service: an HTTP request is not carried out, and its reply has the status 503. Clients do not raise for
it by themselves: the sink has to look at the status.

Only where the harness itself intercepts what is sent: requests of Python over TCP, by `socket` or `ssl`. What is sent
and is no request goes through.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.requests.socket_points import POINT, Unavailable


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[") and point == POINT


def inject(shell: FaultableShell) -> None:
    raise Unavailable("injected: the service is unavailable")


UNAVAILABLE = FaultKind[FaultableShell](
    "unavailable",
    "service unavailable: an HTTP request is not carried out, and its reply has status 503",
    applies=applies,
    inject=inject,
)
