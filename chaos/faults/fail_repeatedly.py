"""The same call to the target fails each time, before or after its effect, as long as the attempt lives.

Healed by the next attempt.
"""

from sinkproof.chaos.faults.error_from_target import applies as applies
from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "fail"
SENTENCE = "persistent failure: from here on this call to the target fails each time, until the attempt is replaced"
VIRTUAL = True


def inject(shell: VirtualShell) -> None:
    shell.fail_from_here()
