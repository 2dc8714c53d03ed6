"""The external system is shut down (SIGTERM) and restarted; the calling attempt is suspended meanwhile.

Healed by the restart. It differs from a kill because the shutdown itself executes code of the external system.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import COMMIT_WINDOW

KIND = "service-stop"
SENTENCE = "service restart: the external system is shut down here, and started again"
NEEDS = "services"
SUSPENDS = True


def applies(actor: str, point: str) -> bool:
    return point in COMMIT_WINDOW


def inject(shell: VirtualShell) -> None:
    shell.break_service("stop")
