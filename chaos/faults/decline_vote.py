"""One subtask's vote becomes a refusal: the checkpoint is aborted for all and the job goes on."""

from sinkproof.chaos.faults.fault_target import Shell

KIND = "decline"
SENTENCE = "this subtask declines the checkpoint, which is aborted for all; the job goes on"


def applies(actor: str, point: str) -> bool:
    return point == "acknowledge.before"


def strike(shell: Shell) -> None:
    shell.decline_vote()
