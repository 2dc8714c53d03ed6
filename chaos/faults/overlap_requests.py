"""Overlapping requests: a zombie's request reaches the server together with the same request of its successor.

Healed by a server that decides in one step: by a unique key, a lock or a compare-and-set. What looks first, and then
writes, finds nothing both times, though it is one statement.
"""

from sinkproof.chaos.faults.fault_kind import PROCESSES, FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.points import SYSTEM_CALL
from sinkproof.chaos.system_calls.outward_calls import SENDING
from sinkproof.chaos.system_calls.place_names import SOCKET


def is_request(actor: str, point: str) -> bool:
    match = SYSTEM_CALL.fullmatch(point)
    return actor.startswith("sink[") and match is not None and match["about"] == SOCKET and match["call"] in SENDING


OVERLAP = FaultKind[FaultableShell](
    "overlap",
    "overlapping requests: this process is suspended and replaced, and resumes when its successor sends the same bytes",
    applies=is_request,
    inject=lambda shell: shell.stop_actor(),
    needs=PROCESSES,
    suspends=True,
)
