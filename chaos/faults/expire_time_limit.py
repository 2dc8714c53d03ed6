"""The clock jumps beyond the target's own time limit: open transactions time out, kept markers are dropped.

Only where the contract names the limit, as `expires_after` (seconds). Nothing heals it: what the target has dropped is
gone, and a right sink says so loudly.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "expire"
SENTENCE = "the clock jumps beyond the target's time limit"
NEEDS = "expires_after"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: VirtualShell) -> None:
    shell.pass_time()
