"""A notification arrives twice, the second time after newer ones. Needs no healing."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.lose_notification import POINTS

REPEAT = FaultKind[VirtualShell](
    "repeat",
    "duplicate notification: the notification to one subtask arrives twice, the second time after newer ones",
    applies=lambda actor, point: point in POINTS,
    inject=lambda shell: shell.repeat_message(),
    is_virtual=True,
)
