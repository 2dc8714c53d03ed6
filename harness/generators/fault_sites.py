"""The places of a run at which a kind of fault can be injected: all of them, or the most informative ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, TypeVar

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_interior, is_line
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.subject.static_analysis.names_in_code import HTTP, has_name, sends_in_bulk, tries_again
from sinkproof.subject.static_analysis.reachable_lines import handles_timeouts

if TYPE_CHECKING:
    from sinkproof.execution.run_result import RunResult

OF_HTTP: Final = ("unavailable", "throttled", "gateway-timeout", "bad-gateway", "reply-cut")
DECIDED: Final = "checkpoint.persist.after"
KINDS_AT_CALLS: Final = ("error", "unanswered")  # before a call to the target, and after it
SINK: Final = "sink[0]"  # the calls of all subtasks can fail in the same ways
EACH: Final = 99  # more often than a certifying job passes any point
Site = TypeVar("Site", Fault, Schedule)
Each = TypeVar("Each")


def faults_of_replies(files: Collection[str]) -> Iterator[str]:
    """Kinds that strike where code in Python sends a request, as far as the code is such that they can harm it."""
    yield "closed"
    if handles_timeouts(files) or tries_again(files):
        yield "late-reply"
        yield from ("request-delayed",) if has_name(files, *HTTP) else ()
    yield from OF_HTTP if has_name(files, *HTTP) else ()
    if sends_in_bulk(files):
        yield from ("items-rejected", "some-rejected")


def passes(run_result: RunResult) -> Iterator[tuple[str, str, int]]:
    """Every pass of a point, in order: (actor, point, occurrence of this point in this actor)."""
    seen: Counter[tuple[int, str]] = Counter()
    for place in run_result.trace:
        seen[place] += 1
        yield run_result.names[place[0]], place[1], seen[place]


def places(run_result: RunResult, kind: str, *, lines: bool = False, sparse: bool = False) -> Iterator[Fault]:
    """The places of a run at which this kind applies, in order: each occurrence, or (sparse) the first, middle and last
    of each actor and point. `lines`: at lines and system calls; else at named points.
    """
    total = {(actor, point): occurrence for actor, point, occurrence in passes(run_result)} if sparse else {}
    for actor, point, occurrence in passes(run_result):
        if is_interior(point) is not lines or not KINDS[kind].applies(actor, point):
            continue
        times = total.get((actor, point), 0)
        if not sparse or occurrence in (1, (times + 1) // 2, times):
            yield Fault(actor, point, occurrence, kind)


def spread(run_result: RunResult, kind: str, *, times: int = 3) -> Iterator[Fault]:
    """Up to so many occurrences of each point, by any actor: the first, the last, and some evenly between."""
    passed: defaultdict[str, list[Fault]] = defaultdict(list)
    for fault in places(run_result, kind):
        passed[fault.point].append(fault)
    for faults in passed.values():
        last, steps = len(faults) - 1, max(times - 1, 1)
        yield from dict.fromkeys(faults[step * last // steps] for step in range(times))


def first_of_each(baseline: RunResult, kind: str, *, lines: bool) -> Iterator[Fault]:
    """The first pass of each point by any actor, in the order of the run."""
    found: dict[str, Fault] = {}
    for fault in places(baseline, kind, lines=lines):
        found.setdefault(fault.point, fault)
    yield from found.values()


def first_of_each_call(baseline: RunResult, kind: str, *, since: int = 0) -> Iterator[Fault]:
    """As `first_of_each` for named points, but, in a run with lines, once for each line of the sink from which the
    point was reached. `since`: index in the trace.
    """
    found: set[tuple[str, str]] = set()
    line: dict[str, str] = {}
    for at, (actor, point, occurrence) in enumerate(passes(baseline)):
        call = (point, line.get(actor, ""))
        if is_line(point):
            line[actor] = point
        elif at >= since and call not in found and KINDS[kind].applies(actor, point):
            found.add(call)
            yield Fault(actor, point, occurrence, kind)


def last_decision(baseline: RunResult) -> int:
    """Index in the trace of the last completed checkpoint: no later commit can repair what goes wrong after it."""
    return max((at for at, (_, point) in enumerate(baseline.trace) if point == DECIDED), default=0)


def last_before_votes(baseline: RunResult, kind: str) -> Iterator[Fault]:
    """The last pass of each named point by each actor before its last vote: a sink that ignores an error there has no
    later write that could notice it.
    """
    passed: defaultdict[str, dict[str, Fault]] = defaultdict(dict)
    voted: dict[str, dict[str, Fault]] = {}
    for actor, point, occurrence in passes(baseline):
        if point == "snapshot.after":
            voted[actor] = dict(passed[actor])
        elif not is_line(point) and KINDS[kind].applies(actor, point):
            passed[actor][point] = Fault(actor, point, occurrence, kind)
    for faults in voted.values():
        yield from faults.values()


def in_turn(groups: Iterable[Iterable[Site]]) -> Iterator[Site]:
    """The first of each group, then the second of each, and so on: a short budget covers something of each."""
    yield from (each for turn in zip_longest(*groups) for each in turn if each is not None)


def as_passed_by(actor: str, run: RunResult) -> RunResult:
    """The run with what this actor passed, and nothing else."""
    return replace(run, trace=[passed for passed in run.trace if run.names[passed[0]] == actor])


def evenly(found: Sequence[Each], most: int) -> list[Each]:
    """The first, the last, and some between."""
    if len(found) <= most:
        return [*found]
    last = len(found) - 1
    return [found[last * number // max(1, most - 1)] for number in range(most)]
