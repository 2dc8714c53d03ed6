"""The job is cancelled in the middle of its input and later started again from the retained checkpoint."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

CANCEL = FaultKind[VirtualShell](
    "cancel",
    "cancel and restart: the job is cancelled here, and started again from its last checkpoint",
    applies=lambda actor, point: actor == "coordinator" and point.startswith("checkpoint."),
    inject=lambda shell: shell.cancel_job(),
    is_virtual=True,
)
