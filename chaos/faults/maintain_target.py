"""The target's own maintenance runs in between: compaction, expiry, a janitor. Nothing has to heal it."""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "maintain"
SENTENCE = "the target's maintenance runs here"
NEEDS = "maintain"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: VirtualShell) -> None:
    shell.strike_target(NEEDS)
