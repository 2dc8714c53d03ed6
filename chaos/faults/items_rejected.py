"""Rejected items: a service carries out no item of a request with many, as its queue or its rate is used up. A reply
of status 200 says so of each item: clients that look at the status of the reply alone lose them.

Only requests of Python, by `socket` or `ssl`, to an API named `_bulk`, as that of Elasticsearch, and to those of AWS
that answer in this way: BatchWriteItem, PutRecords, PutRecordBatch and SendMessageBatch. Anything else is sent.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import ItemsRejected


def inject(shell: FaultableShell) -> None:
    raise ItemsRejected("injected: each item was rejected")


ITEMS_REJECTED = FaultKind[FaultableShell](
    "items-rejected",
    "items rejected: no item of a bulk request is carried out, and its reply of status 200 says so of each",
    applies=applies,
    inject=inject,
)
