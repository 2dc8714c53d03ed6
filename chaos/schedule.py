"""A schedule: which faults are injected where, as one line that can be read, pasted and replayed.

    seed=7 sink[1].commit.after#2=kill checkpoint.notify#3=lose sink[0].line(two_phase.py:42)#1=stop
    sink[0].syscall(rename out/part-*)#2=kill
    ids=8 orders=notify/open+snapshot sink[0].commit.before#1=kill-job

Each fault names an actor and a point, the occurrence of that point in that actor (counted over all its attempts,
from 1), and the kind of fault. The coordinator's points have no actor. A schedule without faults is written
`no-fault`. These words may precede the faults:

    seed=7      other latencies than those of 0
    job=NAME    a job other than the standard one; job=sparse+scale-in differs from it in both ways
    ids=8       checkpoint ids and generations begin 8 higher, as in a job that has been running for a while
    orders=A/B  until the first crash of the whole job, the last sink subtask comes first in the steps that A lists
                (of open, notify and snapshot, joined by +; - is none), then in those of B, and after that in none
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NO_FAULT = "no-fault"
COORDINATOR = "coordinator"
STANDARD = "standard"
STEPS = ("notify", "open", "snapshot")  # in each, the subtasks of a sink may take turns in another order
IN_ORDER = "-"
FORMER_JOB_NAMES = {  # still read, never written
    "late": "zombie-late",
    "unnoticed": "slow-detection",
    "overslept": "zombie-very-late",
    "fewer": "scale-in",
    "more": "scale-out",
    "elastic": "scale-in-and-out",
    "recut": "rebatched",
    "reused": "reused-process",
    "clocks": "clock-skew",
    "second": "two-sinks",
    "uneven": "uneven-sources",
    "timed": "periodic-checkpoints",
    "unsettled": "late-settling",
    "odd": "edge-case-values",
    "bulk": "large-batches",
    "long": "many-checkpoints",
}
FAULT = re.compile(
    r"(?:(?P<actor>[A-Za-z_][\w-]*\[\d+\])\.)?"
    r"(?P<point>line\([^()\s]+:\d+\)|syscall\([a-z0-9_]+ [^()\s]+\)|[a-z_]+(?:\.[a-z_]+)*)"
    r"#(?P<occurrence>[1-9]\d*)=(?P<kind>[a-z-]+)"
)

WORD = re.compile(r"(?:syscall\([^()]*\)|\S)+")  # a system call's name has a blank


class ScheduleError(ValueError):
    """A schedule that cannot be parsed. The message has the word, the reason and a correct example."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """`kind` is injected when `actor` reaches `point` for the `occurrence`-th time."""

    actor: str
    point: str
    occurrence: int
    kind: str

    def __str__(self) -> str:
        place = self.point if self.actor == COORDINATOR else f"{self.actor}.{self.point}"
        return f"{place}#{self.occurrence}={self.kind}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Faults in the order of their injection: each one is armed after the previous one was injected."""

    faults: tuple[Fault, ...] = ()
    seed: int = 0
    job: str = STANDARD
    ids: int = 0
    orders: tuple[str, ...] = ()  # one for each run between two crashes of the whole job; see `order_of`

    def __str__(self) -> str:
        words = [f"job={self.job}"] if self.job != STANDARD else []
        words += [f"seed={self.seed}"] if self.seed else []
        words += [f"ids={self.ids}"] if self.ids else []
        words += [f"orders={'/'.join(self.orders)}"] if self.orders else []
        return " ".join([*words, *(map(str, self.faults) if self.faults else [NO_FAULT])])


def order_of(steps: Iterable[str]) -> str:
    """The steps in which the last subtask comes first, as a schedule writes them."""
    return "+".join(sorted(steps)) or IN_ORDER


EVERY_STEP = order_of(STEPS)


def trimmed(orders: Sequence[str]) -> tuple[str, ...]:
    """Without trailing defaults."""
    last = max((at for at, order in enumerate(orders, 1) if order != IN_ORDER), default=0)
    return tuple(orders[:last])


def _orders(word: str) -> tuple[str, ...]:
    orders = word.partition("=")[2].split("/")
    for order in orders:
        steps = [] if order == IN_ORDER else order.split("+")
        if order_of(steps) != order or not set(steps) <= set(STEPS):
            raise ScheduleError(
                f"cannot read {order!r} in {word!r}. Orders look like 'orders=notify/-/open+snapshot': for each run of "
                f"the job, steps of {', '.join(STEPS)} in this order, or {IN_ORDER!r}"
            )
    return trimmed(orders)


def parse(text: str, *, kinds: frozenset[str] | None = None) -> Schedule:
    """The inverse of `str(schedule)`. `kinds`: the fault kinds to accept (None: any)."""
    faults, seed, job, ids = [], 0, STANDARD, 0
    orders: tuple[str, ...] = ()
    words = WORD.findall(text)
    if not words:
        raise ScheduleError(f"empty schedule. Write faults as {example()!r}, or {NO_FAULT!r}")
    for word in words:
        if word == NO_FAULT:
            continue
        if re.fullmatch(r"seed=\d+", word):
            seed = int(word[5:])
            continue
        if re.fullmatch(r"ids=\d{1,6}", word):
            ids = int(word[4:])
            continue
        if word.startswith("orders="):
            orders = _orders(word)
            continue
        if re.fullmatch(r"job=[a-z][a-z0-9-]*(?:\+[a-z][a-z0-9-]*)?", word):
            job = FORMER_JOB_NAMES.get(word[4:], word[4:])
            continue
        match = FAULT.fullmatch(word.removeprefix(f"{COORDINATOR}."))
        if match is None:
            raise ScheduleError(f"cannot read {word!r} in the schedule. A fault looks like {example()!r}")
        if kinds is not None and match["kind"] not in kinds:
            raise ScheduleError(f"unknown fault kind {match['kind']!r} in {word!r}; known: {', '.join(sorted(kinds))}")
        actor = match["actor"] or COORDINATOR
        faults.append(Fault(actor, match["point"], int(match["occurrence"]), match["kind"]))
    return Schedule(tuple(faults), seed, job, ids, orders)


def example() -> str:
    return "sink[1].commit.after#2=kill"
