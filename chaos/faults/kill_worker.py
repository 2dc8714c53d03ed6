"""The process that hosts an attempt dies by SIGKILL, and the attempt with it. Healed by another worker."""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "kill-worker"
SENTENCE = "worker crash: the worker that hosts this attempt is killed, and the attempt with it"


def applies(actor: str, point: str) -> bool:
    return "[" in actor


def inject(shell: FaultableShell) -> None:
    shell.kill_worker()
