"""The same call to the target fails each time, before or after its effect, as long as the attempt lives.

Healed by the next attempt.
"""

from sinkproof.chaos.faults.error_from_target import ERROR
from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

FAIL = FaultKind[VirtualShell](
    "fail",
    "persistent failure: from here on this call to the target fails each time, until the attempt is replaced",
    applies=ERROR.applies,
    inject=lambda shell: shell.fail_from_here(),
    is_virtual=True,
)
