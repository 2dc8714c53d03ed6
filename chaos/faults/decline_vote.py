"""One subtask declines a checkpoint: the checkpoint is aborted for all subtasks and the job goes on."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

DECLINE = FaultKind[FaultableShell](
    "decline",
    "declined checkpoint: this subtask declines the checkpoint, which is aborted for all; the job goes on",
    applies=lambda actor, point: point == "acknowledge.before",
    inject=lambda shell: shell.decline_vote(),
)
