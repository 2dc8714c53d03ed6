"""An attempt dies within a request: half of its bytes have been sent, and the connection ends.

Healed by a server that knows how long a request is, and takes none that ends early.
"""

from sinkproof.chaos.faults.fault_kind import PROCESSES, FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell
from sinkproof.chaos.faults.overlap_requests import is_request

KILL_HALFWAY = FaultKind[FaultableShell](
    "kill-halfway",
    "process crash within a request: half of its bytes are sent, and this process alone is killed",
    applies=is_request,
    inject=lambda shell: shell.kill_actor(),
    needs=PROCESSES,
)
