"""The job is stopped with a checkpoint in the middle of its input, and later goes on from that checkpoint."""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "drain"
SENTENCE = "the job is stopped with a checkpoint, and started again from it"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return actor == "coordinator" and point.startswith("checkpoint.")


def strike(shell: VirtualShell) -> None:
    shell.drain_job()
