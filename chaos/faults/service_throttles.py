"""Throttled request: the service answers an HTTP request by the status 429, as it does to clients that ask too often,
and does not carry it out. Clients that look for errors of the server alone (500 and more) take it for success.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import Throttled


def inject(shell: FaultableShell) -> None:
    raise Throttled("injected: too many requests")


THROTTLED = FaultKind[FaultableShell](
    "throttled",
    "too many requests: an HTTP request is not carried out, and its reply has status 429",
    applies=applies,
    inject=inject,
)
