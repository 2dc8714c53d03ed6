"""Lays out a timeline as a picture: one lane per actor, time to the right. The template only draws.

Time is not to scale: long waits are shortened and events at almost the same moment are spread, because the order
matters, and a Spark job that waits a second for a restart would otherwise be one long empty lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.at_target import target_words
from sinkproof.reports.document import Document
from sinkproof.reports.story import COORDINATOR, READER, StoryEvent, Timeline, generation_name, sentence, story

NAMES_WIDTH: Final = 104  # the gutter with the actors' names, in pixels as everything here
CHARACTER_WIDTH: Final = 7.0  # of a name; about what a monospaced font of 11.5 px takes
NAME_LONGEST: Final = 24
LANE_HEIGHT: Final = 38
TOP: Final = 34  # for the generations' names
BOTTOM: Final = 26  # for the times
ENDING_HEIGHT: Final = 24  # below the reader's lane, where that shows what became visible
RIGHT: Final = 22
PLOT_WIDTH_LEAST: Final = 800.0
UNIT_WIDTH_MOST: Final = 17.0  # of the shortest distance: the circle of an acknowledgement is 16 wide
LONGEST_WAIT: Final = 2.5  # in units: longer waits are shortened to this
TICKS_APART: Final = 70.0
LABELS_APART: Final = 30.0  # numbers of rows; closer ones stand one below the other
LABEL_CHARACTER_WIDTH: Final = 6.6


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMark:
    """`kind`: of the event. `label`: the checkpoint's number. `title`: the event in words."""

    x: float
    y: float
    kind: str
    label: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultMark:
    x: float
    y: float
    label: str
    anchor: str  # start or end: the side where there is room
    text_x: float
    text_y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMark:
    """A change of the target: at the lane of its attempt, and where rows appear or vanish, at the reader's.
    `label`: how many. `wrong`: some appear once more, or vanish. `old`: of an attempt that has been replaced.
    """

    x: float
    y: float
    reader_y: float
    label: str
    label_y: float
    wrong: bool
    old: bool
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """From the fault until the attempt acts again."""

    since: float
    until: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Swimlane:
    name: str
    y: float
    alive: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A checkpoint across the lanes: its acknowledgements, then the decision, if there was one."""

    acknowledgements: str  # the points of a polyline
    decision: str
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A generation, from its start to the start of the next one."""

    x: float
    width: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    width: float
    height: float
    plot: tuple[float, float]  # left and right
    bottom: float
    lanes: tuple[Swimlane, ...]
    bands: tuple[Band, ...]
    fronts: tuple[Front, ...]
    marks: tuple[TimelineMark, ...]
    changes: tuple[ChangeMark, ...]
    suspensions: tuple[Suspension, ...]
    faults: tuple[FaultMark, ...]
    ticks: tuple[tuple[float, str], ...]
    gaps: tuple[tuple[float, int], ...]  # where events were left out, and how many
    ending: str
    ending_y: float


class _Canvas:
    """Positions of times and actors. The reader's lane, which shows the ending, is always present."""

    def __init__(self, timeline: Timeline) -> None:
        self.names = [name for name in timeline.actors if name != READER]
        if COORDINATOR not in self.names:
            self.names.insert(0, COORDINATOR)
        self.names.append(READER)
        longest = min(NAME_LONGEST, max(map(len, self.names)))
        self.left = max(NAMES_WIDTH, longest * CHARACTER_WIDTH + 18)
        places = _places(timeline.events)
        units = places[-1] if places else 1.0
        self.unit = UNIT_WIDTH_MOST if units * UNIT_WIDTH_MOST > PLOT_WIDTH_LEAST else PLOT_WIDTH_LEAST / max(units, 1)
        self.right = self.left + units * self.unit + 12
        ending_height = ENDING_HEIGHT * any(each.kind == "change" for each in timeline.events)
        self.bottom = TOP + LANE_HEIGHT * len(self.names) + ending_height
        self.ending_y = self.y(READER) + ending_height
        xs = [round(self.left + 6 + place * self.unit, 1) for place in places]
        self.events = list(zip(xs, timeline.events, strict=True))  # with their positions

    def y(self, actor: str) -> float:
        return TOP + LANE_HEIGHT * (self.names.index(actor) + 0.5)


def picture(finding: Document) -> Picture:
    timeline = story(finding)
    canvas = _Canvas(timeline)
    return Picture(
        width=round(canvas.right + RIGHT),
        height=round(canvas.bottom + BOTTOM),
        plot=(round(canvas.left, 1), round(canvas.right, 1)),
        bottom=canvas.bottom,
        lanes=tuple(_lane(name, canvas) for name in canvas.names),
        bands=tuple(_bands(canvas)),
        fronts=tuple(_fronts(canvas)),
        marks=tuple(_mark(x, each, canvas) for x, each in canvas.events if each.kind not in ("fault", "change")),
        changes=tuple(_changes(canvas)),
        suspensions=tuple(_suspensions(canvas)),
        faults=tuple(_fault_marks(canvas, finding["line"])),
        ticks=tuple(_ticks(canvas)),
        gaps=tuple((x - canvas.unit / 2, each.left_out) for x, each in canvas.events if each.left_out),
        ending=timeline.ending,
        ending_y=canvas.ending_y,
    )


def _places(events: Sequence[StoryEvent]) -> list[float]:
    """The position of each event in units: at least one apart where times differ, or where one actor acts twice."""
    gaps = [after.at - before.at for before, after in pairwise(events)]
    usual = median([gap for gap in gaps if gap > 0] or [1.0])
    places, at = [], 0.5
    for index, each in enumerate(events):
        if index and gaps[index - 1] > 0:
            at += min(LONGEST_WAIT, max(1.0, gaps[index - 1] / usual))
        elif index and each.actor == events[index - 1].actor:
            at += 1.0
        at += 1.5 if each.left_out else 0.0
        places.append(at)
    return places


def _lane(name: str, canvas: _Canvas) -> Swimlane:
    return Swimlane(name=name, y=canvas.y(name), alive=() if name == READER else tuple(_alive(name, canvas)))


def _alive(name: str, canvas: _Canvas) -> list[tuple[float, float]]:
    """The intervals in which this actor ran: a fault ends one, the next generation (or, for the coordinator, its next
    event) starts the next one."""
    alive: list[tuple[float, float]] = []
    since: float | None = canvas.left if name == COORDINATOR else None
    for x, each in canvas.events:
        acts = each.kind == "generation" or each.actor == name
        if since is None and acts:
            since = x
        if since is not None and each.stops(name):
            alive.append((since, x))
            since = None
    return alive if since is None else [*alive, (since, round(canvas.right, 1))]


def _bands(canvas: _Canvas) -> list[Band]:
    starts = [(x, each) for x, each in canvas.events if each.kind == "generation"]
    ends = [*(x for x, _ in starts[1:]), canvas.right]
    return [
        Band(x=x, width=round(end - x, 1), name=generation_name(each))
        for (x, each), end in zip(starts, ends, strict=False)  # no start: no end
    ]


def _fronts(canvas: _Canvas) -> list[Front]:
    """By lane, from top to bottom, as a barrier passes through the job. After a whole-job crash another checkpoint may
    have the id of a lost one: a decision belongs to the acknowledgements of its own generation.
    """
    acknowledgements: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    decisions: dict[tuple[int, int], tuple[float, float]] = {}
    for x, each in canvas.events:
        if each.checkpoint is None:
            continue
        place = (x, canvas.y(each.actor))
        if each.kind == "acknowledged":
            acknowledgements.setdefault((each.checkpoint, each.begun, each.generation or 0), []).append(place)
        elif each.kind == "complete":
            decisions[each.checkpoint, each.begun] = place
    fronts = []
    for key, places in acknowledgements.items():
        newest = key == max(other for other in acknowledgements if other[:2] == key[:2])  # not a zombie's
        decision = decisions.get(key[:2]) if newest else None
        fronts.append(
            Front(
                acknowledgements=_points(sorted(places, key=lambda place: place[1])),
                decision=_points([max(places), decision]) if decision else "",
                complete=decision is not None,
            )
        )
    return fronts


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)


def _mark(x: float, each: StoryEvent, canvas: _Canvas) -> TimelineMark:
    return TimelineMark(
        x=x,
        y=canvas.y(each.actor),
        kind=each.kind if each.kind in ("acknowledged", "complete", "declined", "generation") else "other",
        label="" if each.checkpoint is None else str(each.checkpoint),
        title=f"{each.at:.3f} s, {each.actor}: {sentence(each)}",
    )


def _changes(canvas: _Canvas) -> list[ChangeMark]:
    marks: list[ChangeMark] = []
    for x, each in canvas.events:
        if each.change is None:
            continue
        before = next((mark for mark in reversed(marks) if mark.label), None)
        is_near = before is not None and x - before.x < LABELS_APART and before.label_y == canvas.y(READER) + 4
        appeared, vanished = (facts.rows_total(each.change, kind) for kind in ("appeared", "vanished"))
        numbers = [f"+{appeared}" if appeared else "", f"-{vanished}" if vanished else ""]
        marks.append(
            ChangeMark(
                x=x,
                y=canvas.y(each.actor),
                reader_y=canvas.y(READER),
                label=" ".join(filter(None, numbers)),
                label_y=canvas.y(READER) + (15 if is_near else 4),
                wrong=target_words.is_wrong(each.change),
                old=each.change["generation"] < each.begun,
                title=f"{each.at:.3f} s, {each.actor}: {sentence(each)}",
            )
        )
    return marks


def _suspensions(canvas: _Canvas) -> list[Suspension]:
    """From each fault until the same attempt goes on."""
    found, since = [], dict[str, float]()
    for x, each in canvas.events:
        if each.kind == "fault":
            since[each.actor] = x
        elif each.change and each.change["goes_on"] and each.actor in since:
            found.append(Suspension(since=since.pop(each.actor), until=x, y=canvas.y(each.actor)))
    return found


def _fault_marks(canvas: _Canvas, line: Document | None) -> list[FaultMark]:
    """The label stands above the lane, or below if another label is in the way. The last one names its source line."""
    struck = [(x, each) for x, each in canvas.events if each.kind == "fault"]
    faults: list[FaultMark] = []
    taken: list[tuple[float, float, float]] = []  # (y, left, right) of the labels so far
    for x, each in struck:
        y = canvas.y(each.actor)
        named = each is struck[-1][1] and not each.point.startswith("line(")
        label = f"{each.fault} at {each.point}" + (f", {facts.line_text(line)}" if line and named else "")
        width = LABEL_CHARACTER_WIDTH * len(label)
        to_the_right = x + 14 + width < canvas.right
        left = x + 9 if to_the_right else x - 9 - width
        above = y - 13
        in_the_way = any(at == above and left < right and start < left + width for at, start, right in taken)
        text_y = y + 20 if in_the_way else above
        taken.append((text_y, left, left + width))
        faults.append(
            FaultMark(
                x=x,
                y=y,
                label=label,
                anchor="start" if to_the_right else "end",
                text_x=left if to_the_right else x - 9,
                text_y=text_y,
            )
        )
    return faults


def _ticks(canvas: _Canvas) -> list[tuple[float, str]]:
    ticks: list[tuple[float, str]] = []
    for x, each in canvas.events:
        if not ticks or x - ticks[-1][0] >= TICKS_APART:
            ticks.append((x, f"{each.at:.3f} s" if not ticks else f"{each.at:.3f}"))
    return ticks
