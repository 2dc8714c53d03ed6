"""A request is carried out, and neither its reply nor the end of the connection comes: its client waits.

Healed, once the client's timeout is over, by sending the request again, if it does no harm when it is carried out
twice. An attempt that waits without a timeout is killed after a while, as by the time limits of an engine.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.points import SYSTEM_CALL
from sinkproof.chaos.system_calls.outward_calls import SENDING
from sinkproof.chaos.system_calls.place_names import SOCKET


def applies(actor: str, point: str) -> bool:
    match = SYSTEM_CALL.fullmatch(point)
    is_request = match is not None and match["about"] == SOCKET and match["call"] in SENDING
    return actor.startswith("sink[") and is_request


def inject(shell: FaultableShell) -> None:
    """No shell injects it: the watch of the system calls does (chaos/system_calls/supervisor.py)."""


SILENT = FaultKind[FaultableShell](
    "silent",
    "no reply: a request is carried out, and nothing comes back until the client gives up",
    applies=applies,
    inject=inject,
)
