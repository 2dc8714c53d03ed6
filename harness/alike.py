"""Faults of one run that cannot differ: between their places nothing has happened that anybody could notice.

Who dies leaves what is durable and what it has sent. Who stands still, and goes on later, has missed nothing but what
others do to the target meanwhile: wherever it stands between two requests of its own, it meets the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sinkproof.chaos.schedule import Fault
from sinkproof.endings import Mark
from sinkproof.trial import Trial

DEATHS: Final = ("kill", "kill-job")
STANDING_STILL: Final = ("stop", "pause")


def left_by_deaths(baseline: Trial, marks: Sequence[Mark]) -> dict[Fault, Any]:
    """What a death of one or of all leaves at each place of a run: equal ones leave the same."""
    left: dict[Fault, Any] = {}
    seen: Counter[tuple[int, str]] = Counter()
    since = 0  # the place after which nothing has happened
    for at, (place, mark) in enumerate(zip(baseline.trace, marks, strict=False)):
        seen[place] += 1
        kill, crash = (Fault(baseline.names[place[0]], place[1], seen[place], kind) for kind in DEATHS)
        since = since if leaves_the_same(kill, baseline, marks, at=at, before=at - 1) else at
        left[kill] = ("kill", since)
        if mark.left is not None:
            left[crash] = ("kill-job", mark.left)
    return left


def leaves_the_same(fault: Fault, trial: Trial, marks: Sequence[Mark], *, at: int, before: int) -> bool:
    """Whether this death leaves what one at a place before leaves: nothing has happened in between that outlives
    whoever dies. For the whole job that is what is durable; for one of its actors, also what it has sent, and the time:
    the others hear of the death so much later.
    """
    if not 0 <= before < at < len(marks):
        return False
    now, then = marks[at], marks[before]
    same = now.durable == then.durable or (now.left is not None and now.left == then.left)
    same_actor = trial.trace[at][0] == trial.trace[before][0]
    return same and (fault.kind == "kill-job" or (fault.kind == "kill" and same_actor and now.sent == then.sent))


def missed_by_sleepers(baseline: Trial, marks: Sequence[Mark]) -> dict[Fault, Any]:
    """What somebody misses who stands still at each place of a run: the same between two of its own requests."""
    missed: dict[Fault, Any] = {}
    seen: Counter[tuple[int, str]] = Counter()
    since = 0
    for at, (place, mark) in enumerate(zip(baseline.trace, marks, strict=False)):
        seen[place] += 1
        same_actor = at > 0 and baseline.trace[at - 1][0] == place[0]
        if not same_actor or mark != marks[at - 1]:
            since = at
        for kind in STANDING_STILL:
            missed[Fault(baseline.names[place[0]], place[1], seen[place], kind)] = (kind, since)
    return missed


def told_apart(faults: Iterable[Fault], trial: Trial, marks: Sequence[Mark]) -> list[list[Fault]]:
    """Groups of faults that are alike, each in the order of the run: after the last of a group something happens."""
    told = all(mark.touched is not None for mark in marks)
    what = {**left_by_deaths(trial, marks), **missed_by_sleepers(trial, marks)} if told else {}
    groups: defaultdict[Any, list[Fault]] = defaultdict(list)
    for fault in faults:
        groups[what.get(fault, fault)].append(fault)
    return list(groups.values())
