"""One sink attempt is suspended (SIGSTOP), replaced, and later resumes where it was: a zombie.

Healed by fencing, if at all.
"""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "stop"
SENTENCE = "zombie: this process is suspended, replaced, and later resumes"
SUSPENDS = True


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[")


def inject(shell: FaultableShell) -> None:
    shell.stop_actor()
