"""The external system is stopped as operators do it, and started again; who acts stands still meanwhile.

Healed by the restart. Not the same as being killed: what it does when it is told to end is code, too.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import COMMIT_WINDOW

KIND = "service-stop"
SENTENCE = "the external system is stopped here, and started again"
NEEDS = "services"
SLEEPS = True


def applies(actor: str, point: str) -> bool:
    return point in COMMIT_WINDOW


def strike(shell: VirtualShell) -> None:
    shell.break_service("stop")
