"""The notification that a checkpoint is complete (or aborted) never arrives.

Healed by the next one, or by a restart.
"""

from sinkproof.chaos.faults.fault_target import Shell

KIND = "lose"
SENTENCE = "the notification to one subtask is lost; the job goes on"
POINTS = ("checkpoint.notify", "checkpoint.abort")


def applies(actor: str, point: str) -> bool:
    return point in POINTS


def strike(shell: Shell) -> None:
    shell.lose_message()
