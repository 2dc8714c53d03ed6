"""One attempt, or the coordinator alone, dies by SIGKILL. Healed by the next generation."""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "kill"
SENTENCE = "process crash: this process alone is killed; the others run until the failure is detected"


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: FaultableShell) -> None:
    shell.kill_actor()
