"""Shrinks a convicting schedule: leaves out what is not needed, replaying each candidate.

First the words before the faults, then one fault after the other. Without an earlier fault, an actor passes a point
less often; so the fault that follows is also tried at its earlier occurrences. Only findings that a replay shows again
are reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.crash_copies import needs_copies, run_with_copies
from sinkproof.judging.oracle import Anomaly

TRIES_MOST: Final = 150
SECONDS_MOST: Final = 2.0  # for one finding: a replay takes a millisecond, and some ten with lines


@dataclass(frozen=True, slots=True)
class Smallest:
    anomaly: Anomaly
    result: RunResult

    @property
    def schedule(self) -> Schedule:
        return self.result.schedule


def smallest(runner: ScheduleRunner, schedule: Schedule, *, oracle: str) -> Smallest | None:
    """None: the schedule itself does not show it again."""
    found = replayed(runner, schedule, oracle=oracle)
    if found is None:
        return None
    deadline, tries, tried = Deadline(SECONDS_MOST), 0, {schedule}
    smaller = iter(_smaller(schedule))
    while tries < TRIES_MOST and not deadline.over:
        candidate = next(smaller, None)
        if candidate is None:
            break
        if candidate in tried:
            continue
        tried.add(candidate)
        tries += 1
        again = replayed(runner, candidate, oracle=oracle)
        if again is not None:
            found, smaller = again, iter(_smaller(candidate))
    return found


def replayed(runner: ScheduleRunner, schedule: Schedule, *, oracle: str) -> Smallest | None:
    lines = any(is_line(fault.point) for fault in schedule.faults)
    run = partial(run_with_copies, runner) if needs_copies(runner, schedule) else runner.run
    result = run(schedule, trace_lines=lines)
    anomaly = next((each for each in result.anomalies if each.oracle == oracle), None)
    return Smallest(anomaly, result) if anomaly is not None and result.fired else None


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Candidates, each one thing less; the cheapest and likeliest first."""
    for plain in (replace(schedule, seed=0), replace(schedule, ids=0), replace(schedule, orders=())):
        if plain != schedule:
            yield plain
    faults = schedule.faults
    if len(faults) > 2:
        yield replace(schedule, faults=faults[-2:])
    for left_out in range(len(faults)):
        before, after = faults[:left_out], faults[left_out + 1 :]
        yield replace(schedule, faults=(*before, *after))
        if after:
            following, *rest = after
            for occurrence in range(following.occurrence - 1, 0, -1):
                earlier = replace(following, occurrence=occurrence)
                yield replace(schedule, faults=(*before, earlier, *rest))
