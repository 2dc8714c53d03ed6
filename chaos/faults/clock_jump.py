"""The clocks of all attempts jump by 45 minutes; the target keeps the true time. Nothing heals it.

Where sinks are processes, jobs with a wall clock of their own move that, too: over the end of a year, or of daylight
saving time.
"""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

JUMP_SECONDS: Final = 45 * 60.0

CLOCK_FORWARD = FaultKind[VirtualShell](
    "clock-forward",
    "the clocks of attempts jump forward by 45 minutes, over whatever end of a day or a year is near",
    inject=lambda shell: shell.move_clocks(JUMP_SECONDS),
    is_virtual=True,
)
CLOCK_BACK = FaultKind[VirtualShell](
    "clock-back",
    "the clocks of attempts jump back by 45 minutes",
    inject=lambda shell: shell.move_clocks(-JUMP_SECONDS),
    is_virtual=True,
)
