"""Power loss: every process dies, and the target keeps only bytes and names that were forced to disk (fsync).

Healed by a new job that restores the last complete checkpoint, if all that was acknowledged had been forced.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "lose-power"
SENTENCE = "power loss: every process dies, and what was not forced to disk is gone"
NEEDS = "lose_power"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: VirtualShell) -> None:
    shell.lose_power(NEEDS)
