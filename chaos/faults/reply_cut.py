"""Reply cut: the service carries an HTTP request out, and the connection ends in the middle of the body of its reply.
Not every way to read a body compares how much has come with the length that the head says.

Only where the harness itself intercepts what is sent: requests of Python over TCP, by `socket` or `ssl`.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import ReplyCut


def inject(shell: FaultableShell) -> None:
    raise ReplyCut("injected: the connection has ended in the middle of a reply")


REPLY_CUT = FaultKind[FaultableShell](
    "reply-cut",
    "reply cut: an HTTP request is carried out, and the connection ends in the middle of its reply",
    applies=applies,
    inject=inject,
)
