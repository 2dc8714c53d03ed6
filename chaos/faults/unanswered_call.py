"""What was asked of a file is done, and the call fails all the same: its reply is lost, as on a file system that is
reached over a network. Only where the harness itself sees the call: whoever names own points has `.after` points.
"""

from typing import Final

from sinkproof.chaos.faults.fault_target import Shell
from sinkproof.chaos.lines import Unanswered

KIND = "unanswered"
SENTENCE = "a file or folder is changed as was asked, and the call fails with an OSError all the same"
CALLS: Final = ("file.create", "file.rename", "file.unlink", "file.make_directory", "file.remove_directory")


def applies(actor: str, point: str) -> bool:
    return point in CALLS and actor.startswith("sink[")


def strike(shell: Shell) -> None:
    raise Unanswered("injected: the answer was lost")
