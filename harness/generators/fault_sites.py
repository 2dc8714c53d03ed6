"""Where a kind of fault can strike in a run: everywhere, or at the places that tell most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Fault

if TYPE_CHECKING:
    from sinkproof.execution.run_result import RunResult

DECIDED: Final = "checkpoint.persist.after"
EACH: Final = 99  # more often than a certifying job passes any point


def places(run_result: RunResult, kind: str, *, lines: bool = False, sparse: bool = False) -> Iterator[Fault]:
    """Where this kind can strike in a run, in order: each occurrence, or (sparse) the first, middle and last
    of each place.
    """
    total = Counter(run_result.trace)
    seen: Counter[tuple[int, str]] = Counter()
    for place in run_result.trace:
        actor, point = place
        seen[place] += 1
        name = run_result.names[actor]
        if is_line(point) is not lines or not KINDS[kind].applies(name, point):
            continue
        if not sparse or seen[place] in (1, (total[place] + 1) // 2, total[place]):
            yield Fault(name, point, seen[place], kind)


def spread(run_result: RunResult, kind: str, *, times: int = 3) -> Iterator[Fault]:
    """Up to so many occurrences of each point, whoever passes it: the first, the last, and those in the middle."""
    passed: defaultdict[str, list[Fault]] = defaultdict(list)
    seen: defaultdict[tuple[int, str], int] = defaultdict(int)
    for actor, point in run_result.trace:
        seen[actor, point] += 1
        name = run_result.names[actor]
        if not is_line(point) and KINDS[kind].applies(name, point):
            passed[point].append(Fault(name, point, seen[actor, point], kind))
    for faults in passed.values():
        last, steps = len(faults) - 1, max(times - 1, 1)
        yield from dict.fromkeys(faults[step * last // steps] for step in range(times))


def first_of_each(baseline: RunResult, kind: str, *, lines: bool) -> Iterator[Fault]:
    """The first time that anybody passes each point, in the order of the run."""
    met: set[str] = set()
    seen: Counter[tuple[int, str]] = Counter()
    for actor, point in baseline.trace:
        seen[actor, point] += 1
        name = baseline.names[actor]
        if is_line(point) is lines and point not in met and KINDS[kind].applies(name, point):
            met.add(point)
            yield Fault(name, point, seen[actor, point], kind)


def first_of_each_call(baseline: RunResult, kind: str, *, since: int = 0) -> Iterator[Fault]:
    """The same for named points, but apart for each line of the sink's code that leads there, where lines are told.
    `since`: a place of the run.
    """
    met: set[tuple[str, str]] = set()
    seen: Counter[tuple[int, str]] = Counter()
    line: dict[int, str] = {}
    for at, (actor, point) in enumerate(baseline.trace):
        seen[actor, point] += 1
        name, call = baseline.names[actor], (point, line.get(actor, ""))
        if is_line(point):
            line[actor] = point
        elif at >= since and call not in met and KINDS[kind].applies(name, point):
            met.add(call)
            yield Fault(name, point, seen[actor, point], kind)


def last_decision(baseline: RunResult) -> int:
    """The place of the run after which nothing is made good by a later commit."""
    return max((at for at, (_, point) in enumerate(baseline.trace) if point == DECIDED), default=0)


def last_before_votes(baseline: RunResult, kind: str) -> Iterator[Fault]:
    """The last time that each actor passes each named point before its last vote: whoever does not look then what
    became of it has no later write to look at.
    """
    seen: Counter[tuple[int, str]] = Counter()
    passed: defaultdict[int, dict[str, Fault]] = defaultdict(dict)
    voted: dict[int, dict[str, Fault]] = {}
    for actor, point in baseline.trace:
        seen[actor, point] += 1
        if point == "snapshot.after":
            voted[actor] = dict(passed[actor])
        elif not is_line(point) and KINDS[kind].applies(baseline.names[actor], point):
            passed[actor][point] = Fault(baseline.names[actor], point, seen[actor, point], kind)
    for faults in voted.values():
        yield from faults.values()
