"""Lost reply: a file operation is carried out, and its call fails all the same, as on a network file system; or a
service has done what it was sent, and its reply is lost.

Only where the harness itself intercepts the call: a sink that names its own points has `.after` points for this.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.lines import Unanswered
from sinkproof.chaos.points import SYSTEM_CALL
from sinkproof.chaos.system_calls.outward_calls import BY_PATH, SENDING
from sinkproof.chaos.system_calls.place_names import SOCKET

CALLS = (
    "file.create",
    "file.rename",
    "file.unlink",
    "file.make_directory",
    "file.remove_directory",
    "socket.send",
    "client.request",
)


def applies(actor: str, point: str) -> bool:
    match = SYSTEM_CALL.fullmatch(point)
    known = BY_PATH if match is None or match["about"] != SOCKET else SENDING
    return actor.startswith("sink[") and (point in CALLS or (match is not None and match["call"] in known))


def inject(shell: FaultableShell) -> None:
    raise Unanswered("injected: the reply was lost")


UNANSWERED = FaultKind[FaultableShell](
    "unanswered",
    "lost reply: a file or folder is changed, or a request carried out, and the call fails all the same",
    applies=applies,
    inject=inject,
)
