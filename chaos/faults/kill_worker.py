"""The process that hosts an attempt dies by SIGKILL, and the attempt with it. Healed by another worker."""

from sinkproof.chaos.faults.fault_target import Shell

KIND = "kill-worker"
SENTENCE = "the worker that hosts this attempt is killed, and the attempt with it"


def applies(actor: str, point: str) -> bool:
    return "[" in actor


def strike(shell: Shell) -> None:
    shell.kill_worker()
