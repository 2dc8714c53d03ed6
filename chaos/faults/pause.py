"""One sink attempt stops (SIGSTOP) for so short a time that nobody takes it for dead, and goes on; others do meanwhile.

Healed by nothing: two subtasks of a sink run at once, and may find each other in the middle of something.
"""

from sinkproof.chaos.faults.shell import Shell

KIND = "pause"
SENTENCE = "this process stops for a moment, while the others go on; nobody takes it for dead"
NOT_ON_SPARK = True  # the others would have to be waited for


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[")


def strike(shell: Shell) -> None:
    shell.pause_actor()
