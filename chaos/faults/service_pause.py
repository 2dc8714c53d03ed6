"""The external system is suspended (SIGSTOP) for longer than the request timeout; the sink goes on meanwhile.

Heals by itself: the system resumes and carries out all requests, also those of clients that have timed out.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import COMMIT_WINDOW

KIND = "service-pause"
SENTENCE = "service pause: the external system is suspended here, and resumes after requests to it have timed out"
NEEDS = "services"
SUSPENDS = True


def applies(actor: str, point: str) -> bool:
    return point in COMMIT_WINDOW


def inject(shell: VirtualShell) -> None:
    shell.break_service("pause")
