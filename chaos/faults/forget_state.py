"""State loss: the job dies and starts again without any checkpoint, on a target that has its rows.

Checkpoint ids and generations continue to grow. Nothing heals it: all rows are read again. Repeats are allowed then,
loss is not.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

FORGET = FaultKind[VirtualShell](
    "forget",
    "state loss: every process is killed, and the job starts again without any checkpoint",
    inject=lambda shell: shell.rewind_job(to_nothing=True),
    is_virtual=True,
)
