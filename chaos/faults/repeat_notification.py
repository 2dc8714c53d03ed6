"""A notification arrives twice, the second time after newer ones. Needs no healing."""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.lose_notification import POINTS

KIND = "repeat"
SENTENCE = "duplicate notification: the notification to one subtask arrives twice, the second time after newer ones"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return point in POINTS


def inject(shell: VirtualShell) -> None:
    shell.repeat_message()
