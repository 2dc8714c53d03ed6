"""Groups the faults of one run that must have the same outcome, so that one of each group is run.

Two deaths are equivalent if durable state and sent messages are equal at their places. Two suspensions of one attempt
are equivalent if the attempt did not access the target or the clock in between: whatever the others change in the
target meanwhile, the attempt finds the same when it resumes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sinkproof.chaos.schedule import Fault
from sinkproof.execution.run_result import RunResult
from sinkproof.exploration.run_memo import Mark

DEATHS: Final = ("kill", "kill-job")
SUSPENSIONS: Final = ("stop", "pause")


def classes_of_deaths(baseline: RunResult, marks: Sequence[Mark]) -> dict[Fault, Any]:
    """The class of each kill and each whole-job crash at each place of a run: deaths of one class are equivalent."""
    found: dict[Fault, Any] = {}
    seen: Counter[tuple[int, str]] = Counter()
    since = 0  # index of the first place of the class
    for at, (place, mark) in enumerate(zip(baseline.trace, marks, strict=False)):
        seen[place] += 1
        kill, crash = (Fault(baseline.names[place[0]], place[1], seen[place], kind) for kind in DEATHS)
        since = since if is_equivalent(kill, marks, at=at, before=at - 1) else at
        found[kill] = ("kill", since)
        if mark.crash_state is not None:
            found[crash] = ("kill-job", mark.crash_state)
    return found


def is_equivalent(fault: Fault, marks: Sequence[Mark], *, at: int, before: int) -> bool:
    """Whether a fault at the place `at` has the same outcome as one of its kind at the place `before`.

    A whole-job crash: if the durable state is the same. The death of one actor: if, besides, the same actor acted, had
    sent the same messages, and the time is the same, because the failure is detected relative to it. A suspension: if
    the marks are equal altogether, with the event being handled and the count of accesses.
    """
    if not 0 <= before < at < len(marks):
        return False
    now, then = marks[at], marks[before]
    same = now.durable == then.durable or (now.crash_state is not None and now.crash_state == then.crash_state)
    if fault.kind in SUSPENSIONS:
        return now == then and now.accesses is not None
    same_actor = now.status[0] == then.status[0]
    return same and (fault.kind == "kill-job" or (fault.kind == "kill" and same_actor and now.sent == then.sent))


def classes_of_suspensions(baseline: RunResult, marks: Sequence[Mark]) -> dict[Fault, Any]:
    """The class of each stop and each pause at each place of a run: a class ends with the attempt's next access."""
    found: dict[Fault, Any] = {}
    seen: Counter[tuple[int, str]] = Counter()
    since = 0
    for at, place in enumerate(baseline.trace[: len(marks)]):
        seen[place] += 1
        stop, pause = (Fault(baseline.names[place[0]], place[1], seen[place], kind) for kind in SUSPENSIONS)
        since = since if is_equivalent(stop, marks, at=at, before=at - 1) else at
        found[stop], found[pause] = ("stop", since), ("pause", since)
    return found


def equivalence_classes(faults: Iterable[Fault], run_result: RunResult, marks: Sequence[Mark]) -> list[list[Fault]]:
    """Groups of equivalent faults, each in the order of the run. If the target does not count its accesses, each fault
    is a group of its own: without the count, an effect may show in the version only a line after it has happened.
    """
    counted = all(mark.accesses is not None for mark in marks)
    class_of = {**classes_of_deaths(run_result, marks), **classes_of_suspensions(run_result, marks)} if counted else {}
    groups: defaultdict[Any, list[Fault]] = defaultdict(list)
    for fault in faults:
        groups[class_of.get(fault, fault)].append(fault)
    return list(groups.values())
