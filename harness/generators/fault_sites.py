"""The places of a run at which a kind of fault can be injected: all of them, or the most informative ones."""

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
    """The places of a run at which this kind applies, in order: each occurrence, or (sparse) the first, middle and last
    of each actor and point.
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
    """Up to so many occurrences of each point, by any actor: the first, the last, and some evenly between."""
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
    """The first pass of each point by any actor, in the order of the run."""
    found: set[str] = set()
    seen: Counter[tuple[int, str]] = Counter()
    for actor, point in baseline.trace:
        seen[actor, point] += 1
        name = baseline.names[actor]
        if is_line(point) is lines and point not in found and KINDS[kind].applies(name, point):
            found.add(point)
            yield Fault(name, point, seen[actor, point], kind)


def first_of_each_call(baseline: RunResult, kind: str, *, since: int = 0) -> Iterator[Fault]:
    """As `first_of_each` for named points, but, in a run with lines, once for each line of the sink from which the
    point was reached. `since`: index in the trace.
    """
    found: set[tuple[str, str]] = set()
    seen: Counter[tuple[int, str]] = Counter()
    line: dict[int, str] = {}
    for at, (actor, point) in enumerate(baseline.trace):
        seen[actor, point] += 1
        name, call = baseline.names[actor], (point, line.get(actor, ""))
        if is_line(point):
            line[actor] = point
        elif at >= since and call not in found and KINDS[kind].applies(name, point):
            found.add(call)
            yield Fault(name, point, seen[actor, point], kind)


def last_decision(baseline: RunResult) -> int:
    """Index in the trace of the last completed checkpoint: no later commit can repair what goes wrong after it."""
    return max((at for at, (_, point) in enumerate(baseline.trace) if point == DECIDED), default=0)


def last_before_votes(baseline: RunResult, kind: str) -> Iterator[Fault]:
    """The last pass of each named point by each actor before its last vote: a sink that ignores an error there has no
    later write that could notice it.
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
