"""The notification that a checkpoint is complete (or aborted) never arrives.

Healed by the next notification, or by a restart.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

POINTS = ("checkpoint.notify", "checkpoint.abort")

LOSE = FaultKind[FaultableShell](
    "lose",
    "lost notification: the notification to one subtask never arrives; the job goes on",
    applies=lambda actor, point: point in POINTS,
    inject=lambda shell: shell.lose_message(),
)
