"""Fault kinds, one a file: what it does, where it can strike, what heals it.

A kind is a module with KIND (its word in schedules), SENTENCE (for people), `applies(actor, point)` and
`strike(shell)`.
The shell that calls `strike` stands at the point, in the struck actor; `strike` may raise, and may not return.
"""

from __future__ import annotations

from typing import Protocol

from sinkproof.chaos.faults import decline, error, kill, kill_executor, kill_job, kill_worker, lose, stop
from sinkproof.chaos.faults.shell import Shell


class FaultKind(Protocol):
    KIND: str
    SENTENCE: str

    def applies(self, actor: str, point: str) -> bool: ...

    def strike(self, shell: Shell) -> None: ...


MODULES = (kill_job, kill, kill_worker, kill_executor, stop, error, lose, decline)
KINDS: dict[str, FaultKind] = {kind.KIND: kind for kind in MODULES}
