"""The job is cancelled in the middle of its input and later started again from the retained checkpoint."""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "cancel"
SENTENCE = "cancel and restart: the job is cancelled here, and started again from its last checkpoint"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return actor == "coordinator" and point.startswith("checkpoint.")


def inject(shell: VirtualShell) -> None:
    shell.cancel_job()
