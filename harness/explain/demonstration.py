"""What a demonstration is made of: scenes, each with what ran, its timeline, what was observed, and checks of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AnySet
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.sink_adapters.protocol import Row

NAMED_MOST: Final = 12  # rows in a sentence; the document holds all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One event in an actor's lane of the timeline. Its fields are keys of the document."""

    at: float
    lane: str
    what: str
    crash: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something observed: a sentence to read, and the value in it."""

    says: str
    value: Any
    varies: bool = False  # from run to run, as real time does; everything else must not


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An expected value beside the observed one."""

    what: str
    expected: Any
    observed: Any

    @property
    def holds(self) -> bool:
        return bool(plain(self.expected) == plain(self.observed))


@dataclass(slots=True)
class Scene:
    """One run, or one comparison of runs, put together statement by statement."""

    title: str
    _: KW_ONLY
    ran: str = ""  # what was run, in enough detail to run it again
    outcome: str = ""  # in words, made of what was observed
    steps: tuple[TimelineEntry, ...] = ()
    unit: str = "ms"  # of the timeline: virtual time, or the number of a step
    facts: list[Fact] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def fact(self, says: str, value: Any, *, varies: bool = False) -> None:
        self.facts.append(Fact(says=says, value=value, varies=varies))

    def check(self, what: str, expected: Any, observed: Any) -> None:
        self.checks.append(Check(what=what, expected=expected, observed=observed))

    def check_each_row_once(self, run: RecordedRun) -> None:
        self.check("no row is lost or repeated", ([], []), run.lost_and_repeated)

    def finish(self, text: str) -> Scene:
        """The scene, with its outcome."""
        self.outcome = text
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """All scenes of one row. `lesson`: the one sentence to remember."""

    row: str
    sentence: str
    scenes: tuple[Scene, ...]
    lesson: str

    @property
    def holds(self) -> bool:
        """Whether the engine did what the row says. A demonstration without checks shows nothing."""
        checks = [check for scene in self.scenes for check in scene.checks]
        return bool(checks) and all(check.holds for check in checks)

    @property
    def document(self) -> dict[str, Any]:
        return {
            "row": self.row,
            "sentence": self.sentence,
            "holds": self.holds,
            "scenes": [_scene(scene) for scene in self.scenes],
            "lesson": self.lesson,
        }


def _scene(scene: Scene) -> dict[str, Any]:
    return {
        "title": scene.title,
        "ran": scene.ran,
        "unit": scene.unit,
        "timeline": [asdict(step) for step in scene.steps],
        "facts": [plain(asdict(fact)) for fact in scene.facts],
        "outcome": scene.outcome,
        "checks": [{**plain(asdict(check)), "holds": check.holds} for check in scene.checks],
    }


def plain(value: Any) -> Any:
    """As JSON holds it; sets in order, so that two equal runs give equal documents."""
    if isinstance(value, Mapping):
        return {str(key): plain(held) for key, held in value.items()}
    if isinstance(value, AnySet):
        return [plain(held) for held in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [plain(held) for held in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def row_name(row: Row | tuple[int, int]) -> str:
    return f"({row[0]},{row[1]})"


def rows_named(rows: Iterable[Row | tuple[int, int]]) -> str:
    """Rows for a sentence: `(0,2) (0,3)`, at most NAMED_MOST of them."""
    every = list(rows)
    words = " ".join(map(row_name, every[:NAMED_MOST]))
    more = f" and {len(every) - NAMED_MOST} more" if len(every) > NAMED_MOST else ""
    return (words or "none") + more


def counts_named(counts: Mapping[str, Any]) -> str:
    """`a=4 b=2`."""
    return " ".join(f"{key}={value}" for key, value in sorted(counts.items())) or "nothing"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
