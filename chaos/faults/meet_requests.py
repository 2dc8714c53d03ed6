"""Meeting requests: those of two subtasks reach the server together.

Healed by a server that reads and writes what both change in one step: by a lock, or a compare-and-set.
"""

from sinkproof.chaos.faults.fault_kind import PROCESSES, FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.overlap_requests import is_request

MEET = FaultKind[FaultableShell](
    "meet",
    "meeting requests: this process is suspended at a request, and resumes when another subtask sends one",
    applies=is_request,
    inject=lambda shell: shell.pause_actor(),
    needs=PROCESSES,
    suspends=True,
)
