"""Some rejected: a service carries out every other item of a request with many, and rejects the rest: its queue fills
up. Clients that send again what they take for the rejected items lose some, or have others twice.

The same requests as for items_rejected.py; one with a single item is rejected.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.service_unavailable import applies
from sinkproof.chaos.requests.socket_points import SomeRejected


def inject(shell: FaultableShell) -> None:
    raise SomeRejected("injected: every second item was rejected")


SOME_REJECTED = FaultKind[FaultableShell](
    "some-rejected",
    "some rejected: every second item of a bulk request is not carried out, and its reply of status 200 says so",
    applies=applies,
    inject=inject,
)
