"""A notification arrives late: newer ones have overtaken it. Healed by its arrival, or by any that covers it."""

from sinkproof.chaos.faults.lose import POINTS
from sinkproof.chaos.faults.shell import VirtualShell

KIND = "late"
SENTENCE = "the notification to one subtask arrives late, after newer ones"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return point in POINTS


def strike(shell: VirtualShell) -> None:
    shell.delay_message()
