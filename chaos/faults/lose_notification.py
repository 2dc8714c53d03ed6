"""The notification that a checkpoint is complete (or aborted) never arrives.

Healed by the next notification, or by a restart.
"""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "lose"
SENTENCE = "lost notification: the notification to one subtask never arrives; the job goes on"
POINTS = ("checkpoint.notify", "checkpoint.abort")


def applies(actor: str, point: str) -> bool:
    return point in POINTS


def inject(shell: FaultableShell) -> None:
    shell.lose_message()
