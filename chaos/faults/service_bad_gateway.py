"""Bad gateway: the service carries an HTTP request out, and the proxy before it loses the connection: the reply has the
status 502. Clients that take it for a request that was not carried out send it twice.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import BadGateway


def inject(shell: FaultableShell) -> None:
    raise BadGateway("injected: the gateway has lost the service")


BAD_GATEWAY = FaultKind[FaultableShell](
    "bad-gateway",
    "bad gateway: an HTTP request is carried out, and its reply has status 502",
    applies=applies,
    inject=inject,
)
