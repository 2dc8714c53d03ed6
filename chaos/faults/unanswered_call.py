"""Lost reply: a file operation is carried out, and its call fails all the same, as on a network file system; or a
service has done what it was sent, and its reply is lost.

Only where the harness itself intercepts the call: a sink that names its own points has `.after` points for this.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.lines import Unanswered
from sinkproof.chaos.points import call_of
from sinkproof.chaos.system_calls.outward_calls import BY_PATH

CALLS = ("file.create", "file.rename", "file.unlink", "file.make_directory", "file.remove_directory", "socket.send")


def inject(shell: FaultableShell) -> None:
    raise Unanswered("injected: the reply was lost")


UNANSWERED = FaultKind[FaultableShell](
    "unanswered",
    "lost reply: a file or folder is changed, or a request carried out, and the call fails all the same",
    applies=lambda actor, point: actor.startswith("sink[") and (point in CALLS or call_of(point) in BY_PATH),
    inject=inject,
)
