"""One sink attempt hangs, is replaced, and is killed before it goes on: what it holds until then, it never finishes.

Healed by a successor that leaves nothing to it: it has its locks, transactions and connections until its death.
"""

from sinkproof.chaos.faults.fault_kind import PROCESSES, FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

HANG = FaultKind[VirtualShell](
    "hang",
    "hanging process: it is suspended, replaced, and killed before it goes on",
    applies=lambda actor, point: actor.startswith("sink["),
    inject=lambda shell: shell.hang_actor(),
    needs=PROCESSES,
    suspends=True,
)
