"""Late write: an attempt dies and is replaced, and the one request that it was sending takes effect after that.

A zombie executes further code; here the cleanup after that request never happens. Healed by fencing, if at all.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import SINK_POINTS, is_system_call


def can_land(actor: str, point: str) -> bool:
    is_request = point in SINK_POINTS and not point.endswith(".after")
    return actor.startswith("sink[") and (is_request or is_system_call(point))


LAND = FaultKind[VirtualShell](
    "land",
    "late write: this process dies, and the request that it was sending takes effect after it has been replaced",
    applies=can_land,
    inject=lambda shell: shell.land_later(),
    is_virtual=True,
)
