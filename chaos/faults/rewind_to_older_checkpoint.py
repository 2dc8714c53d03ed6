"""The job dies and is restored from the complete checkpoint before the last one.

Checkpoint ids and generations continue to grow. Nothing heals it: rows of the last checkpoint are read again. Repeats
are allowed then, loss is not.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

REWIND = FaultKind[VirtualShell](
    "rewind",
    "rollback: every process is killed, and the job is restored from an older checkpoint than the last",
    inject=lambda shell: shell.rewind_job(to_nothing=False),
    is_virtual=True,
)
