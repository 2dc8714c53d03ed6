"""Every process of the job dies at once. Healed by a new job that restores the last complete checkpoint."""

from sinkproof.chaos.faults.fault_target import Shell

KIND = "kill-job"
SENTENCE = "every process of the job is killed at once"


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: Shell) -> None:
    shell.kill_job()
