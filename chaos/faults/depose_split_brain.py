"""Split brain: a coordinator is suspended, another is elected, and then the first one resumes with its old decision.

Healed by the checkpoint storage, which refuses that decision, and by generations.
"""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

DEPOSE = FaultKind[VirtualShell](
    "depose",
    "split brain: the coordinator is suspended, another one is elected, and later the old one resumes",
    # Not at `generation`: an old coordinator that resumes there is simply elected again.
    applies=lambda actor, point: actor == "coordinator" and point.startswith("checkpoint."),
    inject=lambda shell: shell.depose(),
    is_virtual=True,
)
