"""The external system dies by SIGKILL and is restarted; the calling attempt is suspended meanwhile.

Healed by the restart: acknowledged data is still there, requests in flight are lost, and every connection is dead.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import COMMIT_WINDOW

KIND = "service-kill"
SENTENCE = "service crash: the external system is killed here, and started again"
NEEDS = "services"
SUSPENDS = True


def applies(actor: str, point: str) -> bool:
    return point in COMMIT_WINDOW


def inject(shell: VirtualShell) -> None:
    shell.break_service("kill")
