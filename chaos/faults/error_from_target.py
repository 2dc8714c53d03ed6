"""The target answers with an error: before the effect (a `.before` point, a file call) or after it (its reply
is lost).
"""

from sinkproof.chaos.faults.fault_target import Shell
from sinkproof.chaos.points import SINK_POINTS

KIND = "error"
SENTENCE = "the call to the target fails with an OSError; at an `.after` point its effect has happened all the same"


def applies(actor: str, point: str) -> bool:
    return point in SINK_POINTS and actor.startswith("sink[")


def strike(shell: Shell) -> None:
    raise OSError("injected: the target did not answer")
