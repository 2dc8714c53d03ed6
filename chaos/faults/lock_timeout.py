"""Lock timeout: the server of a database refuses a statement, as a lock that it needs was not free in time.

In PostgreSQL its transaction has failed. In MariaDB it goes on, with what earlier statements have done: a client that
begins another one commits that.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.silent_service import applies


def inject(shell: FaultableShell) -> None:
    """No shell injects it: the watch of the system calls does (chaos/system_calls/supervisor.py)."""


LOCK_TIMEOUT = FaultKind[FaultableShell](
    "lock-timeout",
    "lock timeout: a database refuses a statement, as a lock was not free in time; in MariaDB the transaction goes on",
    applies=applies,
    inject=inject,
)
