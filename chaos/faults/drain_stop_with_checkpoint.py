"""The job is stopped with a final checkpoint in the middle of its input, and later restored from that checkpoint."""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "drain"
SENTENCE = "stop-with-savepoint: the job is stopped with a checkpoint, and started again from it"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return actor == "coordinator" and point.startswith("checkpoint.")


def inject(shell: VirtualShell) -> None:
    shell.drain_job()
