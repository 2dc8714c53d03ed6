"""The external system stands still (SIGSTOP) for longer than a request is waited for; the sink goes on meanwhile.

Healed by itself: it goes on, and does all that it was asked for, also by those who have given up waiting since.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import COMMIT_WINDOW

KIND = "service-pause"
SENTENCE = "the external system stands still from here, and goes on when requests to it have timed out"
NEEDS = "services"
SLEEPS = True


def applies(actor: str, point: str) -> bool:
    return point in COMMIT_WINDOW


def strike(shell: VirtualShell) -> None:
    shell.break_service("pause")
