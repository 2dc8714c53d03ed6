"""Every process of the job dies at once. Healed by a new job that restores the last complete checkpoint."""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "kill-job"
SENTENCE = "job crash: every process of the job is killed at once"


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: FaultableShell) -> None:
    shell.kill_job()
