"""The clock jumps beyond the target's own time limit: open transactions time out, kept markers are dropped.

Only where the contract gives the limit as `expires_after` (seconds). Nothing heals it: data that the target has dropped
is gone, and a correct sink fails loudly.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

EXPIRE = FaultKind[VirtualShell](
    "expire",
    "timeout: the clock jumps beyond the time limit of the target, which drops open transactions or old markers",
    inject=lambda shell: shell.pass_time(),
    needs="expires_after",
    is_virtual=True,
)
