"""Where two attempts of a sink meet: one pauses, or stops, in the middle of what another one does then.

Each line of a sink is a place to pause, but not at each of them is another subtask near. Right after a decision both
commit, and nothing else happens if the job is idle; in a recovery both commit again what was promised. And who is
stopped in its commit meets its own successor, which does the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.hardships import DECIDED, spread
from sinkproof.trial import Trial

COMMITS_ALONE: Final = "sparse"  # the job in which each checkpoint is told long before the next row

Traced = Callable[[Schedule], Trial]  # a run in which every executed line is a point


def in_commits(traced: Traced) -> Iterator[Schedule]:
    """Who waits in vain for a lock of the other one has nothing else to fail at."""
    trial = traced(Schedule(job=COMMITS_ALONE))
    for fault in within(trial, "notify_complete", "pause"):
        yield Schedule((fault,), job=COMMITS_ALONE)


def zombies_in_commits(baseline: Trial) -> Iterator[Schedule]:
    """Who has looked whether it is done, and does it when its successor has done it."""
    yield from (Schedule((fault,)) for fault in within(baseline, "notify_complete", "stop"))


def in_recoveries(traced: Traced, baseline: Trial) -> Iterator[Schedule]:
    """When nobody had been told of a checkpoint before everybody died."""
    death = next(fault for fault in spread(baseline, "kill-job") if fault.point == DECIDED)
    for fault in within(traced(Schedule((death,))), "open", "pause", calls_skipped=1):
        yield Schedule((death, fault))


def within(trial: Trial, call: str, kind: str, *, calls_skipped: int = 0) -> Iterator[Fault]:
    """The first time that each line is executed within such a call, apart from each actor's first ones."""
    seen: Counter[tuple[int, str]] = Counter()
    inside: set[int] = set()
    met: set[str] = set()
    for actor, point in trial.trace:
        seen[actor, point] += 1
        if point == f"{call}.before" and seen[actor, point] > calls_skipped:
            inside.add(actor)
        elif point == f"{call}.after":
            inside.discard(actor)
        elif actor in inside and is_line(point) and point not in met:
            met.add(point)
            yield Fault(trial.names[actor], point, seen[actor, point], kind)
