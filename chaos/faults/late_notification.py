"""A notification arrives after newer ones, or a vote arrives after a newer checkpoint is complete.

Healed by its arrival, or by any notification that covers it. The older checkpoint is aborted right before the newer one
is notified.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.lose_notification import POINTS

LATE = FaultKind[VirtualShell](
    "late",
    "late notification: the notification to one subtask, or its vote, arrives after newer ones",
    applies=lambda actor, point: point in POINTS or point == "acknowledge.before",
    inject=lambda shell: shell.delay_message(),
    is_virtual=True,
)
