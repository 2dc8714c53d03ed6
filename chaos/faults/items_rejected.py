"""Rejected items: a service such as Elasticsearch carries out no item of a bulk request, as its queue is full. A reply
of status 200 says 429 of each item: clients that look at the status of the reply alone lose them.

Only requests of Python to an API named `_bulk`, by `socket` or `ssl`; anything else is sent.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.socket_points import ItemsRejected


def inject(shell: FaultableShell) -> None:
    raise ItemsRejected("injected: each item was rejected")


ITEMS_REJECTED = FaultKind[FaultableShell](
    "items-rejected",
    "items rejected: no item of a bulk request is carried out, and its reply of status 200 says so of each",
    applies=applies,
    inject=inject,
)
