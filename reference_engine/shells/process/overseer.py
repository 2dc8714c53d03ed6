"""Defines what attempts report while they run: their points, injected faults, and deaths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from sinkproof.reference_engine.shells.process.attempt_endings import AttemptEnded, AttemptEnding

Armed = tuple[str, int, str]  # (point, how many more times it must be reached, kind)


class Overseer(Protocol):
    """Receives the points and deaths of attempts: the engine's FaultInjector."""

    def armed(self, actor: str) -> Armed | None:
        """The fault that is injected next, if it belongs to this actor."""

    def then(self, actor: str) -> str:
        """The point of the fault after it, if that belongs to this actor, too; "": to another one, or there is none."""

    def passed(self, actor: str, points: Sequence[str]) -> None:
        """Points that the journal shows since the last call. An armed error was injected at the last of them."""

    def died(self, actor: str, status: int) -> NoReturn:
        """The attempt has died at its armed point."""

    def stopped(self, actor: str) -> None:
        """The attempt has stopped itself at its armed point. Returns when it goes on; raises if the job has died."""


class Unwatched:
    """The overseer of attempts without faults."""

    def armed(self, actor: str) -> Armed | None:
        return None

    def then(self, actor: str) -> str:
        return ""

    def passed(self, actor: str, points: Sequence[str]) -> None:
        pass

    def died(self, actor: str, status: int) -> NoReturn:
        raise AttemptEnded(AttemptEnding.SIGNALLED, status=status)

    def stopped(self, actor: str) -> None:
        pass
