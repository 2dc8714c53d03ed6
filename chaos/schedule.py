"""A schedule: which faults strike where, as one line that people can read, paste and replay.

    seed=7 sink[1].commit.after#2=kill checkpoint.notify#3=lose sink[0].line(two_phase.py:42)#1=stop

Each fault names an actor and a point, the occurrence of that point in that actor (counted over all its attempts,
from 1),
and the kind of fault. The coordinator's points carry no actor. `seed` may be left out when it is 0, `job=NAME` when it
is the standard one; a schedule without faults is written `no-fault`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NO_FAULT = "no-fault"
COORDINATOR = "coordinator"
STANDARD = "standard"
FAULT = re.compile(
    r"(?:(?P<actor>[A-Za-z_][\w-]*\[\d+\])\.)?"
    r"(?P<point>line\([^()\s]+:\d+\)|[a-z_]+(?:\.[a-z_]+)*)"
    r"#(?P<occurrence>[1-9]\d*)=(?P<kind>[a-z-]+)"
)


class ScheduleError(ValueError):
    """A schedule that cannot be read; the message says which word, why, and what a right one looks like."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Strike `kind` when `actor` reaches `point` for the `occurrence`-th time."""

    actor: str
    point: str
    occurrence: int
    kind: str

    def __str__(self) -> str:
        place = self.point if self.actor == COORDINATOR else f"{self.actor}.{self.point}"
        return f"{place}#{self.occurrence}={self.kind}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Faults in the order in which they strike; the next one is armed when the one before it has struck."""

    faults: tuple[Fault, ...] = ()
    seed: int = 0
    job: str = STANDARD

    def __str__(self) -> str:
        words = [f"job={self.job}"] if self.job != STANDARD else []
        words += [f"seed={self.seed}"] if self.seed else []
        return " ".join([*words, *(map(str, self.faults) if self.faults else [NO_FAULT])])


def parse(text: str, *, kinds: frozenset[str] | None = None) -> Schedule:
    """Reads what `str(schedule)` wrote. `kinds`: the fault kinds to accept (None: any)."""
    faults, seed, job = [], 0, STANDARD
    words = text.split()
    if not words:
        raise ScheduleError(f"empty schedule. Write faults as {example()!r}, or {NO_FAULT!r}")
    for word in words:
        if word == NO_FAULT:
            continue
        if re.fullmatch(r"seed=\d+", word):
            seed = int(word[5:])
            continue
        if re.fullmatch(r"job=[a-z][a-z-]*", word):
            job = word[4:]
            continue
        match = FAULT.fullmatch(word)
        if match is None:
            raise ScheduleError(f"cannot read {word!r} in the schedule. A fault looks like {example()!r}")
        if kinds is not None and match["kind"] not in kinds:
            raise ScheduleError(f"unknown fault kind {match['kind']!r} in {word!r}; known: {', '.join(sorted(kinds))}")
        actor = match["actor"] or COORDINATOR
        faults.append(Fault(actor, match["point"], int(match["occurrence"]), match["kind"]))
    return Schedule(tuple(faults), seed, job)


def example() -> str:
    return "sink[1].commit.after#2=kill"
