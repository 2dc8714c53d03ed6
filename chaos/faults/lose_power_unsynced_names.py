"""Power is lost, but bytes had reached the disk by themselves: what is missing are names that were not forced.

Renamed files are under their old names, new ones nowhere. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "lose-names"
SENTENCE = "power is lost: bytes are on disk, but names that were not forced are gone"
NEEDS = "lose_names"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: VirtualShell) -> None:
    shell.lose_power(NEEDS)
