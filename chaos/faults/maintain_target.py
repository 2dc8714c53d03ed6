"""The target's own maintenance runs in between: compaction, expiry, cleanup. Needs no healing."""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "maintain"
SENTENCE = "background maintenance: compaction, expiry or cleanup of the target runs here"
NEEDS = "maintain"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: VirtualShell) -> None:
    shell.strike_target(NEEDS)
