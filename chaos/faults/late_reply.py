"""Late reply: a request is carried out, and its reply comes when the client's timeout is over. A client that uses the
connection again takes each reply for that of the next request.

Only where the harness itself intercepts what is sent: requests of Python over TCP, by `socket` or `ssl`, that wait with
a timeout of the connection. Elsewhere nothing happens.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import ReplyTooLate


def inject(shell: FaultableShell) -> None:
    raise ReplyTooLate("injected: timed out")


LATE_REPLY = FaultKind[FaultableShell](
    "late-reply",
    "late reply: a request is carried out, and its reply comes when the client has given up waiting",
    applies=applies,
    inject=inject,
)
