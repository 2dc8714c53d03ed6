"""The target's own maintenance runs in between: compaction, expiry, cleanup. Needs no healing."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

MAINTAIN = FaultKind[VirtualShell](
    "maintain",
    "background maintenance: compaction, expiry or cleanup of the target runs here",
    inject=lambda shell: shell.strike_target("maintain"),
    needs="maintain",
    is_virtual=True,
)
