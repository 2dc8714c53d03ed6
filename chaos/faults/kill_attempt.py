"""One attempt, or the coordinator alone, dies by SIGKILL. Healed by the next generation."""

from sinkproof.chaos.faults.fault_target import Shell

KIND = "kill"
SENTENCE = "this process alone is killed; the others live on until they are told"


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: Shell) -> None:
    shell.kill_actor()
