"""Outward system calls that no line explains, and those between which a loss of power leaves something else.

Of a run with executed lines and system calls in its trace: a death at a point leaves the same outside as one before the
next outward call. So one call after a point is explained by it, and a second one is not: native code, or code of a
library, has made it. Neither is a call of another thread, or of a program that the sink has started.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import Final, NamedTuple

from sinkproof.chaos.faults import KINDS, POWER_LOSSES
from sinkproof.chaos.faults.black_hole import BLACK_HOLE
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.faults.short_write import SHORT_WRITE
from sinkproof.chaos.faults.silent_service import SILENT
from sinkproof.chaos.points import AROUND_CALLS, call_of, is_line, is_system_call
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import DECIDED, EACH, KINDS_AT_CALLS, evenly, in_turn, passes, spread

BEFORE, AFTER = KINDS_AT_CALLS
BEFORE_CALLS: Final = frozenset(point for point in AROUND_CALLS if point.endswith(".before"))
KILL: Final = "kill"
KINDS_BETWEEN: Final = (KILL, "pause", "stop")
# An attempt is suspended between the first calls after a point only: each time a reader waits for its locks.
SUSPENDED_MOST: Final = 2
COMMIT: Final = "notify_complete.before"
UNNOTIFIED: Final = {  # the other subtask than this one, of the first checkpoint
    "sink[0]": Fault(COORDINATOR, "checkpoint.notify", 2, "lose"),
    "sink[1]": Fault(COORDINATOR, "checkpoint.notify", 1, "lose"),
}
OPENED: Final = "open.before"
IN_ONE_CALL_MOST: Final = 12  # a driver sends one burst for each row, and a few more
SILENT_COMMITS_MOST, SILENT_CALLS_MOST = 3, 3
STATEMENTS_OF_A_LINE_MOST, STATEMENTS_MOST = 3, 24
FORCING: Final = frozenset({"fsync", "fdatasync", "sync_file_range", "syncfs", "sync"})
MANY_TIMES: Final = 1 << 30
ALIKE_MOST: Final = 8  # of the calls that one call of a sink makes more often than usual
STEPS_BEFORE_LOSSES: Final = (DECIDED, "notify_complete.after")
Place = tuple[str, int]  # the name of a call, and its occurrence in the actor


class Burst(NamedTuple):
    """The calls of an actor between two of its points; of another thread: each by itself."""

    actor: str
    after: str  # the point before it
    calls: tuple[Place, ...]
    within: str = ""  # the step before the call of the sink in which they were made
    time: int = 0  # which one of these calls it was
    is_apart: bool = False

    @property
    def unexplained(self) -> tuple[Place, ...]:
        return self.calls if self.is_apart else self.calls[1:]

    @property
    def names(self) -> tuple[str, ...]:
        """Each name once, however often the call was made one time after the other: pages of a file, for example."""
        return tuple(name for name, _ in groupby(name for name, _ in self.calls))

    @property
    def place(self) -> tuple[object, ...]:
        """Where its calls are made; a name that comes several times comes twice."""
        names = [each for _, same in groupby(name for name, _ in self.calls) for each in [*same][:2]]
        return self.within, self.after, tuple(names)

    @property
    def in_call(self) -> tuple[object, str, int]:
        """Which one of the sink's calls made it, at which place."""
        return self.place, self.actor, self.time

    def faults(self, places: Iterable[Place], kind: str) -> Iterator[Fault]:
        yield from (Fault(self.actor, name, occurrence, kind) for name, occurrence in places)


def edges_of(places: Sequence[Place]) -> list[Place]:
    """Of several calls with one name, one after the other, the first and the last."""
    names = ["", *(name for name, _ in places), ""]
    return [place for at, place in enumerate(places, 1) if not names[at - 1] == names[at] == names[at + 1]]


def bursts(result: RunResult) -> list[Burst]:
    found: list[Burst] = []
    after: dict[str, str] = {}
    within: dict[str, tuple[str, int]] = {}
    calls: dict[str, list[Place]] = {}

    def end(actor: str) -> None:
        if made := calls.pop(actor, None):
            found.append(Burst(actor, after.get(actor, ""), tuple(made), *within.get(actor, ("", 0))))

    for actor, point, occurrence in passes(result):
        if not is_system_call(point):
            end(actor)
            after[actor] = point
            within[actor] = (point, occurrence) if point in BEFORE_CALLS else within.get(actor, ("", 0))
        elif (actor, point, occurrence) in result.calls_apart:
            found.append(Burst(actor, after.get(actor, ""), ((point, occurrence),), is_apart=True))
        else:
            calls.setdefault(actor, []).append((point, occurrence))
    for actor in list(calls):
        end(actor)
    return found


def distinct(found: Iterable[Burst]) -> list[Burst]:
    """Of those with the same names after the same point, by any subtask, the first and the last."""
    alike: dict[tuple[object, ...], list[Burst]] = {}
    for burst in found:
        alike.setdefault((burst,) if burst.is_apart else (burst.after, burst.names), []).append(burst)
    return [burst for group in alike.values() for burst in (group[:1] + group[1:][-1:])]


def unexplained(result: RunResult) -> set[tuple[str, str, int]]:
    """All of them: (actor, name, occurrence)."""
    return {(burst.actor, name, occurrence) for burst in bursts(result) for name, occurrence in burst.unexplained}


def kills_in_native_code(result: RunResult, *, edges: bool = False) -> list[Fault]:
    """Before each unexplained call of the distinct bursts, or those at their `edges`. Of each burst the first one comes
    first, so that a short budget covers something of each.
    """
    chosen = edges_of if edges else tuple
    return list(in_turn(burst.faults(chosen(burst.unexplained), "kill") for burst in distinct(bursts(result))))


def requests_without_reply(result: RunResult) -> list[Schedule]:
    """Some of those of commits, and of other calls: the client waits until its timeout is over each time. The last one
    of a burst, as a client may send one request in several calls. Each is carried out, or else lost.
    """
    requests: dict[bool, list[Fault]] = {True: [], False: []}
    for burst in distinct(bursts(result)):
        sent = [place for place in burst.calls if KINDS[SILENT.word].applies(burst.actor, place[0])]
        requests[burst.within == COMMIT] += burst.faults(sent[-1:], SILENT.word)
    chosen = (*evenly(requests[True], SILENT_COMMITS_MOST), *evenly(requests[False], SILENT_CALLS_MOST))
    return [Schedule((replace(fault, kind=kind),)) for fault in chosen for kind in (SILENT.word, BLACK_HOLE.word)]


def refused_statements(
    result: RunResult, *, usual: RunResult | None = None, most: int = STATEMENTS_MOST
) -> list[Schedule]:
    """Some of those that each line sends in each call of the sink, but what the usual run sends there, too."""
    known = _statements(usual).keys() if usual else ()
    sent = [evenly(faults, STATEMENTS_OF_A_LINE_MOST) for at, faults in _statements(result).items() if at not in known]
    before = result.schedule.faults
    return [replace(result.schedule, faults=(*before, fault)) for fault in [*in_turn(sent)][:most]]


def _statements(result: RunResult) -> dict[tuple[str, str], list[Fault]]:
    """By step and line of the actor that has sent them."""
    sent: dict[tuple[str, str], list[Fault]] = {}
    step, line = defaultdict[str, str](str), defaultdict[str, str](str)
    for actor, point, occurrence in passes(result):
        if (actor, point, occurrence) in result.statements:
            refused = Fault(actor, point, occurrence, REFUSED_STATEMENT.word)
            sent.setdefault((step[actor], line[actor]), []).append(refused)
        elif is_line(point):
            line[actor] = point
        elif point in BEFORE_CALLS:
            step[actor] = point
    return sent


def short_writes(result: RunResult) -> list[Schedule]:
    """The first write that each line makes to each file: a disk that is nearly full takes a part of it. Also where the
    other subtask is not notified of the first checkpoint, and writes nothing next to it; and with a death before the
    rest is written, as a SIGKILL leaves a write that covers several pages. The last write of each subtask is torn so,
    too: what lies next to it or behind it by then is in no state any more.
    """
    found: dict[tuple[str, str], Fault] = {}
    last: dict[tuple[str, str, str], Fault] = {}
    line: dict[str, str] = {}
    for actor, point, occurrence in passes(result):
        if KINDS[SHORT_WRITE.word].applies(actor, point):
            place = line.get(actor, ""), point
            last[*place, actor] = Fault(actor, point, occurrence, SHORT_WRITE.word)
            found.setdefault(place, last[*place, actor])
        elif is_line(point):
            line[actor] = point
    beside = [Schedule((UNNOTIFIED[fault.actor], fault)) for fault in found.values() if fault.actor in UNNOTIFIED]
    torn = [
        Schedule((fault, replace(fault, occurrence=fault.occurrence + 1, kind="kill-job")))
        for fault in dict.fromkeys((*found.values(), *last.values()))
    ]
    return [*(Schedule((fault,)) for fault in found.values()), *beside, *torn]


def after_new_calls(result: RunResult, usual: RunResult, *, kinds: Sequence[str] = KINDS_BETWEEN) -> list[Schedule]:
    """A buffer that is full is written before the rest is, and a recovery has more to write: where a run makes calls
    after a point that the usual one does not make there, faults of these kinds come before the second of them, and the
    one after them. So does what is larger than one piece: where a call of the sink makes them more often than any in
    the usual run, faults come before the first of these, and deaths before each of them: which are the new ones is not
    known.
    """
    known, times = times_in_one_call(bursts(usual)), Counter[object]()
    found: list[Fault] = []
    follows: set[str] = set()  # actors; their next call comes after such a one
    made = bursts(result)
    for burst in made:
        places = burst.calls[:1] if burst.actor in follows else ()
        alike: tuple[Place, ...] = ()
        follows.discard(burst.actor)
        times[burst.in_call] += 1
        if times[burst.in_call] > known.get(burst.place, 0):
            follows.add(burst.actor)
            if burst.place in known:
                places += burst.calls[:1]
                alike = tuple(each.calls[0] for each in made if each.in_call == burst.in_call)[1:]
            places = tuple(dict.fromkeys((*places, *edges_of(burst.unexplained))))
            known[burst.place] = MANY_TIMES if burst.place in known else 1
        deaths = (*evenly(alike, ALIKE_MOST), *places)
        for kind in kinds:
            found += burst.faults(deaths if kind == KILL else places[:SUSPENDED_MOST], kind)
    before = result.schedule.faults
    return [replace(result.schedule, faults=(*before, fault)) for fault in dict.fromkeys(found)]


def times_in_one_call(found: Iterable[Burst]) -> dict[object, int]:
    """The most of each place."""
    times = Counter(burst.in_call for burst in found)
    most: dict[object, int] = {}
    for (place, *_), number in times.items():
        most[place] = max(number, most.get(place, 0))
    return most


def errors_at_unknown_calls(result: RunResult) -> list[Schedule]:
    """Before the first and the last call of each distinct burst that no known call to the target has made, and after
    the last one: the errors of that burst are others, and so may be what handles them. One line may make all calls,
    for statements of any kind: where it makes several in one commit, each of these bursts fails.
    """
    unknown = _unknown(result)
    commits = (burst for burst in unknown if burst.within == COMMIT)
    return [Schedule((fault,)) for fault in _errors((*distinct(unknown), *_most_in_one_call(commits)))]


def errors_in_recovery(recovery: RunResult) -> list[Schedule]:
    """The same where a restored sink opens."""
    opened = [burst for burst in _unknown(recovery) if burst.within == OPENED and burst.time > 1]
    faults = _errors((*distinct(opened), *_most_in_one_call(opened)))
    return [replace(recovery.schedule, faults=(*recovery.schedule.faults, fault)) for fault in faults]


def _unknown(result: RunResult) -> list[Burst]:
    return [burst for burst in bursts(result) if not _can_fail(burst.actor, burst.after)]


def _errors(unknown: Iterable[Burst]) -> Iterator[Fault]:
    found = []
    for burst in dict.fromkeys(unknown):
        first, last = burst.calls[0], burst.calls[-1]
        faults = [*burst.faults(dict.fromkeys((last, first)), BEFORE), *burst.faults([last], AFTER)]
        found.append([fault for fault in faults if KINDS[fault.kind].applies(fault.actor, fault.point)])
    return in_turn(found)


def _most_in_one_call(found: Iterable[Burst]) -> list[Burst]:
    """The call of one subtask in which most are made; of many some."""
    calls: dict[tuple[str, int], list[Burst]] = {}
    for burst in found:
        calls.setdefault((burst.actor, burst.time), []).append(burst)
    return evenly(max(calls.values(), key=len, default=[]), IN_ONE_CALL_MOST)


def _can_fail(actor: str, point: str) -> bool:
    return any(KINDS[kind].applies(actor, point) for kind in KINDS_AT_CALLS)


def power_losses(result: RunResult) -> list[Schedule]:
    """In each order in which a file system may have written: before calls, and at steps after which something was
    promised. Left out are those that would take nothing away, and those that would leave what another one has left
    before a call of the same burst.
    """
    would_leave = _by_place(result)
    groups: dict[str, list[Fault]] = {kind: _at_steps(result, kind) for kind in POWER_LOSSES}
    for burst in distinct(bursts(result)):
        known = {0}
        for place, kind in product(edges_of(burst.calls), POWER_LOSSES):
            left = would_leave.get((burst.actor, *place))
            digest = None if left is None else left[KINDS[kind].needs]
            if digest is None or digest not in known:
                known |= set() if digest is None else {digest}
                groups[kind] += burst.faults([place], kind)
    return [Schedule((fault,)) for fault in in_turn(groups.values())]


def losses_after_failed_forcing(failed: RunResult) -> list[Schedule]:
    """A call that forces a file or a folder to disk has failed, and no attempt by it: power is lost after the next
    promise.
    """
    if not {call_of(fault.point) for fault in failed.schedule.faults} & FORCING:
        return []
    return losses_after_faults(failed)


def losses_after_faults(result: RunResult) -> list[Schedule]:
    """Power is lost after the first promise that follows the faults of this run, and after the last one: a recovery may
    force less than a commit, and later checkpoints force nothing of its files.
    """
    before = result.schedule.faults
    steps: dict[str, list[Fault]] = {point: [] for point in STEPS_BEFORE_LOSSES}
    to_come = {(fault.actor, fault.point, fault.occurrence) for fault in before}
    for actor, point, occurrence in passes(result):
        if not to_come and point in steps:
            steps[point].append(Fault(actor, point, occurrence, ""))
        to_come.discard((actor, point, occurrence))
    found = [fault for faults in steps.values() for fault in (*faults[:1], *faults[1:][-1:])]
    schedules = (
        replace(result.schedule, faults=(*before, replace(fault, kind=kind)))
        for fault in found
        for kind in POWER_LOSSES
    )
    return list(schedules)


def power_losses_at_steps(result: RunResult, *, times: int = EACH) -> list[Schedule]:
    """In the job of this run, each time: a checkpoint with nothing to write forces nothing of earlier ones, either."""
    faults = in_turn(_at_steps(result, kind, times=times) for kind in POWER_LOSSES)
    return [replace(result.schedule, faults=(fault,)) for fault in faults]


def _at_steps(result: RunResult, kind: str, *, times: int = 2) -> list[Fault]:
    return [fault for fault in spread(result, kind, times=times) if fault.point in STEPS_BEFORE_LOSSES]


def _by_place(result: RunResult) -> Mapping[tuple[str, str, int], Mapping[str, int]]:
    """What losses would leave before each call. Calls were noted in the order of the trace, unless threads race."""
    calls = [place for place in passes(result) if is_system_call(place[1])]
    if [point for _, point, _ in calls] != [point for point, _ in result.losses_would_leave]:
        return {}
    return dict(zip(calls, (left for _, left in result.losses_would_leave), strict=True))
