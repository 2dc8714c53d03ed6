"""One sink attempt stands still for so short a time that nobody takes it for dead; the others go on meanwhile.

Healed by nothing: two subtasks of a sink run at once, and may find each other in the middle of something.
"""

from sinkproof.chaos.faults.fault_target import Shell

KIND = "pause"
SENTENCE = "this process stands still for a moment, while the others go on; nobody takes it for dead"
SLEEPS = True


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[")


def strike(shell: Shell) -> None:
    shell.pause_actor()
