"""Where two attempts of a sink meet: one pauses, or stops, in the middle of what another one does then.

Each line of a sink is a place to pause, but not at each of them is another subtask near. Right after a decision both
commit, and nothing else happens if the job is idle; in a recovery both commit again what was promised. And who is
stopped in its commit meets its own successor, which does the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.schedule_runner import RunResult
from sinkproof.generators.fault_sites import DECIDED, spread
from sinkproof.generators.rare import EACH, offered, unheard
from sinkproof.subject.contract import Contract
from sinkproof.workload.jobs import LATE_SETTLING_JOB, SCALE_IN_JOB

COMMITS_ALONE: Final = "sparse"  # the job in which each checkpoint is told long before the next row
LEAVES: Final = "sink[1]"  # in the job `scale-in`
FULL_COMMITS: Final = LATE_SETTLING_JOB  # the same, and each sink has rows in each checkpoint

Traced = Callable[[Schedule], RunResult]  # a run in which every executed line is a point


def in_commits(traced: Traced) -> Iterator[Schedule]:
    """Who waits in vain for a lock of the other one has nothing else to fail at."""
    run_result = traced(Schedule(job=COMMITS_ALONE))
    yield from (Schedule((fault,), job=COMMITS_ALONE) for fault in within(run_result, "notify_complete", "pause"))


def in_full_commits(traced: Traced) -> Iterator[Schedule]:
    """Where whoever is met has rows, too; and in the last commit: what goes wrong there is put right by no other."""
    run_result = traced(Schedule(job=FULL_COMMITS))
    told = Counter(run_result.names[actor] for actor, point in run_result.trace if point == "notify_complete.before")
    last = within(run_result, "notify_complete", "pause", calls_skipped=max(told.values(), default=1) - 1)
    faults = dict.fromkeys((*within(run_result, "notify_complete", "pause"), *last))
    yield from (Schedule((fault,), job=FULL_COMMITS) for fault in faults)


def both_in_commits(traced: Traced) -> Iterator[Schedule]:
    """Each finds what the other has half done."""
    for faults in both_within(traced(Schedule(job=COMMITS_ALONE)), "notify_complete", "pause"):
        yield Schedule(faults, job=COMMITS_ALONE)


def zombies_in_commits(baseline: RunResult, *, jobs: Sequence[str]) -> Iterator[Schedule]:
    """Who has looked whether it is done, and does it when its successor has done it; or when the others are further."""
    faults = list(within(baseline, "notify_complete", "stop"))
    yield from (Schedule((fault,), job=job) for job in jobs for fault in faults)


def leaving_in_commits(baseline: RunResult) -> Iterator[Schedule]:
    """Whoever has no successor of its own number: somebody else is given its state, and does what it does."""
    own = replace(baseline, trace=[passed for passed in baseline.trace if baseline.names[passed[0]] == LEAVES])
    yield from (Schedule((fault,), job=SCALE_IN_JOB) for fault in within(own, "notify_complete", "stop"))


def in_files_not_forced(traced: RunResult, contract: Contract) -> Iterator[Schedule]:
    """Who has died in its commit was met by its successor, which took over what was there; then the power is lost."""
    for kind in offered(contract, "lose-power"):
        lost = [fault for fault in spread(traced, kind) if fault.point == DECIDED][1:2]
        for death in within(traced, "notify_complete", "kill"):
            yield from (Schedule((death, last)) for last in lost)


def in_recoveries(traced: Traced, baseline: RunResult) -> Iterator[Schedule]:
    """When nobody had been told of any checkpoint before everybody died: the others do much in a moment."""
    death = [fault for fault in spread(baseline, "kill-job", times=EACH) if fault.point == DECIDED][-1]
    before = (*unheard(baseline), death)
    for fault in within(traced(Schedule(before)), "open", "pause", calls_skipped=1):
        yield Schedule((*before, fault))


def in_rescaled_recoveries(traced: Traced, jobs: Iterable[str]) -> Iterator[Schedule]:
    """Everybody dies once more, while what others had left is being put in place."""
    decided = Fault(COORDINATOR, DECIDED, 1, "kill-job")
    for job in jobs:
        run_result = traced(Schedule((decided,), job=job))
        for fault in within(run_result, "open", "kill-job", calls_skipped=1, last=True):
            yield Schedule((decided, fault), job=job)


def both_within(run_result: RunResult, call: str, kind: str) -> Iterator[tuple[Fault, ...]]:
    """Two subtasks at the same line, in the same call for the same checkpoint: whoever came first goes on first."""
    first: dict[str, dict[str, Fault]] = {}
    for name in run_result.names:
        own = replace(run_result, trace=[passed for passed in run_result.trace if run_result.names[passed[0]] == name])
        for fault in within(own, call, kind):
            first.setdefault(fault.point, {})[name] = fault
    for faults in first.values():
        if len(faults) > 1:
            yield tuple(faults.values())[:2]


def within(
    run_result: RunResult, call: str, kind: str, *, calls_skipped: int = 0, last: bool = False
) -> Iterator[Fault]:
    """The first time that each line is executed within such a call, but an actor's first ones; and the `last` time."""
    seen: Counter[tuple[int, str]] = Counter()
    inside: set[int] = set()
    met: dict[str, list[Fault]] = {}
    for actor, point in run_result.trace:
        seen[actor, point] += 1
        if point == f"{call}.before" and seen[actor, point] > calls_skipped:
            inside.add(actor)
        elif point == f"{call}.after":
            inside.discard(actor)
        elif actor in inside and is_line(point):
            met.setdefault(point, []).append(Fault(run_result.names[actor], point, seen[actor, point], kind))
    for faults in met.values():
        yield from dict.fromkeys((faults[0], faults[-1])) if last else faults[:1]
