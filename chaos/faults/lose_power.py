"""Power is lost: every process dies, and of the target only what was forced to disk is left, bytes and names alike.

Healed by a new job that restores the last complete checkpoint, as long as what was acknowledged had been forced.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "lose-power"
SENTENCE = "power is lost: every process dies, and what was not forced to disk is gone"
NEEDS = "lose_power"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: VirtualShell) -> None:
    shell.lose_power(NEEDS)
