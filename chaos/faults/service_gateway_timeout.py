"""Gateway timeout: the service carries an HTTP request out, and the proxy before it has given up by then: the reply has
the status 504. Clients that take each answer by an error for a request that was not carried out send it twice.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import GatewayTimeout


def inject(shell: FaultableShell) -> None:
    raise GatewayTimeout("injected: the gateway did not wait any longer")


GATEWAY_TIMEOUT = FaultKind[FaultableShell](
    "gateway-timeout",
    "gateway timeout: an HTTP request is carried out, and its reply has status 504",
    applies=applies,
    inject=inject,
)
