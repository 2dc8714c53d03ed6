"""Delivers a coordinator's message: at once, or, under a message fault, never, after the next one, or twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sinkproof.reference_engine.shells.carry_out_effects import CoordinatorShell

# The delay of a late message that no other one follows: shorter than a closing coordinator's patience.
LAST_MS: Final = 24
LATE_VOTE_MS: Final = 30  # by then the next checkpoint of a certifying job is complete, and has subsumed this one
Key = tuple[int, int]  # (actor id, generation)
Event = tuple[str, Any, Any]  # kind, a, b
Held = tuple[tuple[Key, Event], ...]


def send(shell: CoordinatorShell, to: Key, event: Event, *, delay: float, fault: str) -> None:
    """`fault`: "" (none), "lost", "late" or "repeated"."""
    if fault == "lost":
        return
    if fault != "late":
        shell.post(delay, to, event)
    if shell.held:
        _release_overtaken(shell, to, delay=delay)
    if fault in ("late", "repeated"):
        kind, _, final = event
        if kind == "complete" and final:  # the last message to this subtask
            shell.post(delay + LAST_MS, to, event)
        else:
            shell.held = (*shell.held, (to, event))


def _release_overtaken(shell: CoordinatorShell, to: Key, *, delay: float) -> None:
    waiting = [held for held in shell.held if held[0] == to]
    shell.held = tuple(held for held in shell.held if held[0] != to)
    for _, event in waiting:
        shell.post(delay + 1, to, event)
