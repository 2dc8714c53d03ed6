"""The job is cancelled in the middle of its input, and later started again from the checkpoint that is retained."""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "cancel"
SENTENCE = "the job is cancelled, and started again from its last checkpoint"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return actor == "coordinator" and point.startswith("checkpoint.")


def strike(shell: VirtualShell) -> None:
    shell.cancel_job()
