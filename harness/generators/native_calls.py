"""Outward system calls that no line explains, and those between which a loss of power leaves something else.

Of a run with executed lines and system calls in its trace: a death at a point leaves the same outside as one before the
next outward call. So one call after a point is explained by it, and a second one is not: native code, or code of a
library, has made it. Neither is a call of another thread, or of a program that the sink has started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sinkproof.chaos.faults import POWER_LOSSES
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import DECIDED, in_turn, passes, spread

STEPS_BEFORE_LOSSES: Final = (DECIDED, "acknowledge.after", "notify_complete.after", "write.after")
Place = tuple[str, int]  # the name of a call, and its occurrence in the actor


class Burst(NamedTuple):
    """The calls of an actor between two of its points; of another thread: each by itself."""

    actor: str
    after: str  # the point before it
    calls: tuple[Place, ...]
    is_apart: bool = False

    @property
    def unexplained(self) -> tuple[Place, ...]:
        return self.calls if self.is_apart else self.calls[1:]

    @property
    def changes(self) -> tuple[Place, ...]:
        """Of several calls with one name, one after the other, the first and the last: a write after a write leaves no
        other choice to a file system.
        """
        names = ["", *(name for name, _ in self.calls), ""]
        return tuple(
            place
            for number, place in enumerate(self.calls, 1)
            if not names[number - 1] == names[number] == names[number + 1]
        )

    def faults(self, places: Iterable[Place], kind: str) -> Iterator[Fault]:
        yield from (Fault(self.actor, name, occurrence, kind) for name, occurrence in places)


def bursts(result: RunResult) -> list[Burst]:
    found: list[Burst] = []
    after: dict[str, str] = {}
    calls: dict[str, list[Place]] = {}

    def end(actor: str) -> None:
        if made := calls.pop(actor, None):
            found.append(Burst(actor, after.get(actor, ""), tuple(made)))

    for actor, point, occurrence in passes(result):
        if not is_system_call(point):
            end(actor)
            after[actor] = point
        elif (actor, point, occurrence) in result.calls_apart:
            found.append(Burst(actor, after.get(actor, ""), ((point, occurrence),), is_apart=True))
        else:
            calls.setdefault(actor, []).append((point, occurrence))
    for actor in list(calls):
        end(actor)
    return found


def distinct(found: Iterable[Burst]) -> list[Burst]:
    """Of those with the same calls after the same point, by any subtask, the first and the last."""
    alike: dict[tuple[object, ...], list[Burst]] = {}
    for burst in found:
        key = (burst,) if burst.is_apart else (burst.after, tuple(name for name, _ in burst.calls))
        alike.setdefault(key, []).append(burst)
    return [burst for group in alike.values() for burst in (group[:1] + group[1:][-1:])]


def unexplained(result: RunResult) -> set[tuple[str, str, int]]:
    """All of them: (actor, name, occurrence)."""
    return {(burst.actor, name, occurrence) for burst in bursts(result) for name, occurrence in burst.unexplained}


def kills_in_native_code(result: RunResult) -> list[Fault]:
    """Before each unexplained call of the distinct bursts; of each burst the first one first, so that a short budget
    covers something of each.
    """
    return list(in_turn(burst.faults(burst.unexplained, "kill") for burst in distinct(bursts(result))))


def power_losses(result: RunResult) -> Iterator[Schedule]:
    """In each order in which a file system may have written: before calls, and at steps after which something was
    promised.
    """
    groups = []
    for kind in POWER_LOSSES:
        steps = (fault for fault in spread(result, kind) if fault.point in STEPS_BEFORE_LOSSES)
        before_calls = in_turn(burst.faults(burst.changes, kind) for burst in distinct(bursts(result)))
        groups.append([Schedule((fault,)) for fault in (*steps, *before_calls)])
    yield from in_turn(groups)
