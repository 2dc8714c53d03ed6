"""Late write: an attempt dies and is replaced, and the one request that it was sending takes effect after that.

A zombie executes further code; here the cleanup after that request never happens. Healed by fencing, if at all.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import SINK_POINTS

KIND = "land"
SENTENCE = "late write: this process dies, and the request that it was sending takes effect after it has been replaced"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[") and point in SINK_POINTS and not point.endswith(".after")


def inject(shell: VirtualShell) -> None:
    shell.land_later()
