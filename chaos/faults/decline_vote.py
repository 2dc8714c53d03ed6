"""One subtask declines a checkpoint: the checkpoint is aborted for all subtasks and the job goes on."""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "decline"
SENTENCE = "declined checkpoint: this subtask declines the checkpoint, which is aborted for all; the job goes on"


def applies(actor: str, point: str) -> bool:
    return point == "acknowledge.before"


def inject(shell: FaultableShell) -> None:
    shell.decline_vote()
