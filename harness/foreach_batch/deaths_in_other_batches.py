"""Deaths at what only other batches do: lines that the usual ones do not execute, and turns of loops that they lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.certifying_query import KILL, OTHER_ORDER_JOB
from sinkproof.foreach_batch.simulated_batches import Trail
from sinkproof.workload.job_names import EDGE_CASE_VALUES_JOB, EQUAL_ROWS_JOB

DEATHS_MOST: Final = 24  # of one job: each is followed by most of its batches
LATE: Final = 2  # of the batches that lead to a line
TURNS: Final = 2  # before the second turn of a loop with a new line, what the first one has done is there


class _Pass(NamedTuple):
    line: str
    before: str  # the line before it in this batch; empty: it is the first
    occurrence: int
    turn: int  # within its batch
    batch: int


def deaths_in_other_batches(usual: Trail, other: Trail, *, chunks: bool, late: bool = False) -> list[Fault]:
    """`usual`, `other`: of runs without faults. New lines come first. `chunks`: a number in the code may be the size of
    one, so that a second turn of a loop, or a line after another one than usual, may leave what none has left before.
    `late`: in the second batch that leads there, so that what the first one has left is there (a compacted log).
    """
    known = list(_passes(usual))
    turns = Counter({passed.line: passed.turn for passed in sorted(known, key=lambda each: each.turn)})
    pairs = {(passed.before, passed.line) for passed in known}
    found: dict[tuple[int, str, str], _Pass] = {}
    batches: Counter[tuple[int, str, str]] = Counter()
    for passed in _passes(other):
        if not turns[passed.line] and passed.turn <= TURNS:
            what = 0, passed.line, str(passed.turn)
        elif chunks and turns[passed.line] == 1 and passed.turn == 2:
            what = 1, passed.line, ""
        elif chunks and turns[passed.line] and (passed.before, passed.line) not in pairs:
            what = 2, passed.line, passed.before
        else:
            continue
        if what in found and found[what].batch == passed.batch:
            continue
        batches[what] += 1
        # Rather where rows of a batch are there already.
        if what not in found or found[what].batch == 0 or (late and batches[what] == LATE):
            found[what] = passed
    chosen = sorted(found.items(), key=lambda item: item[0][0])
    return [Fault(COORDINATOR, passed.line, passed.occurrence, KILL) for _, passed in chosen[:DEATHS_MOST]]


def deaths_at_values_and_orders(trails: Mapping[str, Trail]) -> Iterator[Schedule]:
    """`trails`: by job, of runs without faults. Of equal rows those of the last batch equal some that are there."""
    for job, deaths in (
        (EDGE_CASE_VALUES_JOB, deaths_at_each_line),
        (EQUAL_ROWS_JOB, deaths_at_each_line),
        (OTHER_ORDER_JOB, deaths_in_second_turns),
    ):
        yield from (Schedule((fault,), job=job) for fault in deaths(trails.get(job, [])))


def deaths_at_each_line(other: Trail) -> list[Fault]:
    """In the last batch, of which the values, not the lines, are other ones than usual."""
    of_last = {passed.line: passed for passed in reversed([*_passes(other)]) if passed.batch == other[-1][2]}
    return [Fault(COORDINATOR, passed.line, passed.occurrence, KILL) for passed in of_last.values()][:DEATHS_MOST]


def deaths_in_second_turns(other: Trail) -> list[Fault]:
    """Of loops, in the second batch: a part of it is there."""
    found = {passed.line: passed for passed in _passes(other) if (passed.batch, passed.turn) == (1, TURNS)}
    return [Fault(COORDINATOR, passed.line, passed.occurrence, KILL) for passed in found.values()][:DEATHS_MOST]


def _passes(trail: Trail) -> Iterator[_Pass]:
    """Of lines, in runs without faults."""
    occurrences: Counter[str] = Counter()
    for batch, points in groupby(trail, key=lambda each: each[2]):
        turns: Counter[str] = Counter()
        before = ""
        for line in _lines(points):
            occurrences[line] += 1
            turns[line] += 1
            yield _Pass(line, before, occurrences[line], turns[line], batch)
            before = line


def _lines(points: Iterable[tuple[int, str, int]]) -> Iterator[str]:
    return (point for _, point, _ in points if is_line(point))
