"""Power is lost, but names had reached the disk by themselves: files are there, with torn or empty contents.

That is what journals of file systems leave of a rename without an fsync. Healed as lose-power.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "lose-bytes"
SENTENCE = "power is lost: names are on disk, but bytes that were not forced are gone or torn"
NEEDS = "lose_bytes"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: VirtualShell) -> None:
    shell.lose_power(NEEDS)
