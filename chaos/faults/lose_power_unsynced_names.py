"""Power loss without directory sync: bytes were on disk already, but names that were not forced are missing.

Renamed files have their old names, new files have none. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "lose-names"
SENTENCE = "power loss without directory sync: bytes are on disk, but names that were not forced are gone"
NEEDS = "lose_names"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: VirtualShell) -> None:
    shell.lose_power(NEEDS)
