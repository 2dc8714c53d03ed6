"""A request outlives its sender: the attempt dies, is replaced, and the one effect lands after that.

Not a zombie, which goes on: whatever it would have done next to clean up is never done. Healed by fencing, if at all.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import SINK_POINTS

KIND = "land"
SENTENCE = "this process dies, and the request it was just sending lands when it has been replaced"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[") and point in SINK_POINTS and not point.endswith(".after")


def strike(shell: VirtualShell) -> None:
    shell.land_later()
