"""The clock jumps beyond the target's own time limit: open transactions time out, kept markers are dropped.

Only where the contract gives the limit as `expires_after` (seconds). Nothing heals it: data that the target has dropped
is gone, and a correct sink fails loudly.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "expire"
SENTENCE = "timeout: the clock jumps beyond the time limit of the target, which drops open transactions or old markers"
NEEDS = "expires_after"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: VirtualShell) -> None:
    shell.pass_time()
