"""How a coordinator's message travels: as sent, or as a fault has decided: never, later than the next one, or twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

LAST_MS: Final = 24  # what a last message is late by, as no other comes: less than a closing coordinator's patience
LATE_VOTE_MS: Final = 30  # the next checkpoint of a certifying job is complete by then, and has subsumed this one
Key = tuple[int, int]  # (actor id, generation)
Event = tuple[str, Any, Any]  # kind, a, b
Held = tuple[tuple[Key, Event], ...]


class Sender(Protocol):
    held: Held  # messages that wait until a newer one to the same subtask has been sent

    @property
    def post(self) -> Callable[[float, Key, Event], None]: ...


def send(shell: Sender, to: Key, event: Event, *, delay: float, fate: str) -> None:
    """`fate`: "" (on its way), "lost", "late" or "repeated"."""
    if fate == "lost":
        return
    if fate != "late":
        shell.post(delay, to, event)
    if shell.held:
        _let_go(shell, to, delay=delay)
    if fate in ("late", "repeated"):
        if _is_last(event):
            shell.post(delay + LAST_MS, to, event)
        else:
            shell.held = (*shell.held, (to, event))


def _is_last(event: Event) -> bool:
    kind, _, final = event
    return kind == "complete" and bool(final)


def _let_go(shell: Sender, to: Key, *, delay: float) -> None:
    """They have been overtaken."""
    waiting = [held for held in shell.held if held[0] == to]
    shell.held = tuple(held for held in shell.held if held[0] != to)
    for _, event in waiting:
        shell.post(delay + 1, to, event)
