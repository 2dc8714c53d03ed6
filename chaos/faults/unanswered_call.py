"""Lost reply: a file operation is carried out, and its call fails all the same, as on a network file system.

Only where the harness itself intercepts the call: a sink that names its own points has `.after` points for this.
"""

from typing import Final

from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.lines import Unanswered

KIND = "unanswered"
SENTENCE = "lost reply: a file or folder is changed as requested, and the call fails with an OSError all the same"
CALLS: Final = ("file.create", "file.rename", "file.unlink", "file.make_directory", "file.remove_directory")


def applies(actor: str, point: str) -> bool:
    return point in CALLS and actor.startswith("sink[")


def inject(shell: FaultableShell) -> None:
    raise Unanswered("injected: the reply was lost")
