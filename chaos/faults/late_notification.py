"""A notification arrives late: newer ones have overtaken it. Or a vote: a newer checkpoint is complete by then.

Healed by its arrival, or by any that covers it; the older checkpoint is aborted right before the newer one is told.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.lose_notification import POINTS

KIND = "late"
SENTENCE = "the notification to one subtask, or its vote, arrives late: newer ones overtake it"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return point in POINTS or point == "acknowledge.before"


def strike(shell: VirtualShell) -> None:
    shell.delay_message()
