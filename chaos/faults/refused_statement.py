"""Refused statement: the server of a database carries nothing of a statement out, and says so; the connection goes on.

In PostgreSQL and MariaDB its transaction is the victim of a deadlock, in Redis the memory is used up. Healed, if the
statement is sent again: by clients that know what is left of the transaction.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.silent_service import applies


def inject(shell: FaultableShell) -> None:
    """No shell injects it: the watch of the system calls does (chaos/system_calls/supervisor.py)."""


REFUSED_STATEMENT = FaultKind[FaultableShell](
    "refused-statement",
    "refused statement: a database carries nothing of it out, and says so, as where its transaction is in a deadlock",
    applies=applies,
    inject=inject,
)
