"""Delayed request: an HTTP request is so slow on its way that its client gives up waiting, and it arrives after two
later ones. A service that takes whatever comes goes back to what was.

Only where the harness itself intercepts what is sent: requests of Python over TCP, by `socket`, that wait with a
timeout of the connection. Elsewhere nothing happens.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import RequestDelayed


def inject(shell: FaultableShell) -> None:
    raise RequestDelayed("injected: the request is on its way")


REQUEST_DELAYED = FaultKind[FaultableShell](
    "request-delayed",
    "delayed request: an HTTP request arrives after later ones, when its client has given up",
    applies=applies,
    inject=inject,
)
