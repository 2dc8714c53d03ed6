"""A notification arrives after newer ones, or a vote arrives after a newer checkpoint is complete.

Healed by its arrival, or by any notification that covers it. The older checkpoint is aborted right before the newer one
is notified.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.lose_notification import POINTS

KIND = "late"
SENTENCE = "late notification: the notification to one subtask, or its vote, arrives after newer ones"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return point in POINTS or point == "acknowledge.before"


def inject(shell: VirtualShell) -> None:
    shell.delay_message()
