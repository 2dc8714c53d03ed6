"""Faults of one run that cannot differ: between their places nothing has happened that anybody could notice.

Who dies leaves what is durable and what it has sent. Who stands still, and goes on later, has missed nothing but what
others do to the target meanwhile: wherever it stands between two requests of its own, it meets the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sinkproof.chaos.schedule import Fault
from sinkproof.execution.run_result import RunResult
from sinkproof.exploration.run_memo import Mark

DEATHS: Final = ("kill", "kill-job")
STANDING_STILL: Final = ("stop", "pause")


def left_by_deaths(baseline: RunResult, marks: Sequence[Mark]) -> dict[Fault, Any]:
    """What a death of one or of all leaves at each place of a run: equal ones come to the same."""
    left: dict[Fault, Any] = {}
    seen: Counter[tuple[int, str]] = Counter()
    since = 0  # the place after which nothing has happened
    for at, (place, mark) in enumerate(zip(baseline.trace, marks, strict=False)):
        seen[place] += 1
        kill, crash = (Fault(baseline.names[place[0]], place[1], seen[place], kind) for kind in DEATHS)
        since = since if is_equivalent(kill, marks, at=at, before=at - 1) else at
        left[kill] = ("kill", since)
        if mark.left is not None:
            left[crash] = ("kill-job", mark.left)
    return left


def is_equivalent(fault: Fault, marks: Sequence[Mark], *, at: int, before: int) -> bool:
    """Whether this fault comes to the same at a place before. A death, if nothing has happened in between that outlives
    whoever dies: for the whole job that is what is durable; for one of its actors, also what it has sent, and the time,
    because the others hear of the death so much later. Who stands still must be in the middle of the same.
    """
    if not 0 <= before < at < len(marks):
        return False
    now, then = marks[at], marks[before]
    same = now.durable == then.durable or (now.left is not None and now.left == then.left)
    if fault.kind in STANDING_STILL:
        return now == then and now.touched is not None
    same_actor = now.status[0] == then.status[0]
    return same and (fault.kind == "kill-job" or (fault.kind == "kill" and same_actor and now.sent == then.sent))


def missed_by_sleepers(baseline: RunResult, marks: Sequence[Mark]) -> dict[Fault, Any]:
    """What somebody misses who stands still at each place of a run: the same between two of its own requests."""
    missed: dict[Fault, Any] = {}
    seen: Counter[tuple[int, str]] = Counter()
    since = 0
    for at, place in enumerate(baseline.trace[: len(marks)]):
        seen[place] += 1
        stop, pause = (Fault(baseline.names[place[0]], place[1], seen[place], kind) for kind in STANDING_STILL)
        since = since if is_equivalent(stop, marks, at=at, before=at - 1) else at
        missed[stop], missed[pause] = ("stop", since), ("pause", since)
    return missed


def equivalence_classes(faults: Iterable[Fault], run_result: RunResult, marks: Sequence[Mark]) -> list[list[Fault]]:
    """Groups of faults that are alike, each in the order of the run: after the last of a group something happens."""
    told = all(mark.touched is not None for mark in marks)  # others may count an effect a line after it has happened
    what = {**left_by_deaths(run_result, marks), **missed_by_sleepers(run_result, marks)} if told else {}
    groups: defaultdict[Any, list[Fault]] = defaultdict(list)
    for fault in faults:
        groups[what.get(fault, fault)].append(fault)
    return list(groups.values())
