"""A notification arrives twice, the second time when newer ones have come. Nothing has to heal it."""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.lose_notification import POINTS

KIND = "repeat"
SENTENCE = "the notification to one subtask arrives twice, the second time after newer ones"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return point in POINTS


def strike(shell: VirtualShell) -> None:
    shell.repeat_message()
