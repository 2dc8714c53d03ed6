"""The external system that the sink writes to dies by SIGKILL, and is started again; who acts stands still meanwhile.

Healed by the restart: what was acknowledged is still there, what was on its way is not, and every connection is dead.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import COMMIT_WINDOW

KIND = "service-kill"
SENTENCE = "the external system is killed here, and started again"
NEEDS = "services"
SLEEPS = True


def applies(actor: str, point: str) -> bool:
    return point in COMMIT_WINDOW


def strike(shell: VirtualShell) -> None:
    shell.break_service("kill")
