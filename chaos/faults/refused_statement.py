"""Refused statement: a server carries nothing of it out, and says so.

In PostgreSQL and MariaDB its transaction is the victim of a deadlock, in Redis the memory is used up, and the
connection goes on. A service of HTTP answers by the status 503, whichever program has sent the request. Healed, if it
is sent again: by clients that know what is left of the transaction.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.silent_service import applies


def inject(shell: FaultableShell) -> None:
    """No shell injects it: the watch of the system calls does (chaos/system_calls/supervisor.py)."""


REFUSED_STATEMENT = FaultKind[FaultableShell](
    "refused-statement",
    "refused statement: a database carries nothing of it out, and reports a deadlock; a service of HTTP answers by 503",
    applies=applies,
    inject=inject,
)
