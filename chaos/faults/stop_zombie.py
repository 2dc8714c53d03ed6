"""One sink attempt stops (SIGSTOP), is replaced, and goes on later where it stood: a zombie.

Healed by fencing, if at all.
"""

from sinkproof.chaos.faults.fault_target import Shell

KIND = "stop"
SENTENCE = "this process stops, is replaced, and later goes on as a zombie"
SLEEPS = True


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[")


def strike(shell: Shell) -> None:
    shell.stop_actor()
