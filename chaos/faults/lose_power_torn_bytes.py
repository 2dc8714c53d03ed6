"""Power loss with torn writes: names were on disk already, so files exist, but with torn or empty contents.

A journaling file system leaves this after a rename without fsync. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "lose-bytes"
SENTENCE = "power loss with torn writes: names are on disk, but bytes that were not forced are gone or torn"
NEEDS = "lose_bytes"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: VirtualShell) -> None:
    shell.lose_power(NEEDS)
