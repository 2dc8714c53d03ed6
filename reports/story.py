"""A finding's timeline as a story: who did what in which generation, which checkpoints became complete, what struck.

The document keeps events as people read them ("acknowledged: 2" by "sink[0] (generation 700002)"). Here they are taken
apart; what is not understood is kept as it is. Pictures and the few lines of a terminal are made of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sinkproof.reports import facts
from sinkproof.reports.document import Document

COORDINATOR: Final = "coordinator"
READER: Final = "reader"
ACTOR: Final = re.compile(r"(?P<name>.+?) \(generation (?P<generation>\d+)\)")
WHAT: Final = re.compile(r"(?P<word>.+?): (?P<detail>.+)", re.DOTALL)
OF_A_CHECKPOINT: Final = ("acknowledged", "complete", "declined", "upload cancelled", "not durable", "aborted")
EVENTS_SHOWN: Final = 60  # of one timeline: what can still be told apart in a picture as wide as a page
EVENTS_AROUND_STRIKE: Final = 7
STRIKES_FOLLOWED: Final = 3
BOLT: Final = "⚡"
LINES_OF_WORDS: Final = 9
ROWS_NAMED: Final = 4
EXTRA_MEANS: Final = {"O3": "seen early or again", "O9": "added by a replaced attempt"}
WORDS_LONGEST: Final = 90  # of one event: a sink's own error may be a page

# What kinds of faults do to lanes; what is not listed ends nobody's. `everybody`: the whole job dies.
ENDS: Final = re.compile(r"kill|die|death|crash|error|fail|land")
ENDS_EVERYBODY: Final = re.compile(r"job|power|bytes|names|rewind|forget|drain|cancel")
STOPS: Final = re.compile(r"stop|depose|pause|zombie")


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event, taken apart. `kind`: strike, generation, one of OF_A_CHECKPOINT, or other."""

    at: float
    actor: str
    generation: int | None
    kind: str
    text: str
    checkpoint: int | None = None
    fault: str = ""
    point: str = ""
    begun: int = 0  # how many generations have begun by then; the engine's own numbers are like 700002
    left_out: int = 0  # so many events are not shown right before this one

    @property
    def ends(self) -> bool:
        return bool(self.fault and ENDS.search(self.fault))

    @property
    def ends_everybody(self) -> bool:
        return bool(self.fault and ENDS_EVERYBODY.search(self.fault))

    @property
    def stops(self) -> bool:
        return bool(self.fault and STOPS.search(self.fault))


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """`actors` in the order of the protocol."""

    happenings: tuple[Happening, ...]
    actors: tuple[str, ...]
    completed: frozenset[int]
    ending: str  # what a reader saw in the end

    @property
    def strikes(self) -> list[Happening]:
        return [each for each in self.happenings if each.kind == "strike"]


def story(finding: Document) -> Story:
    everything = _counted([_happening(event) for event in finding["timeline"]])
    shown = _shown(everything)
    return Story(
        happenings=tuple(shown),
        actors=tuple(sorted(dict.fromkeys(each.actor for each in shown), key=_place)),
        completed=frozenset(
            each.checkpoint for each in everything if each.kind == "complete" and each.checkpoint is not None
        ),
        ending=ending(finding),
    )


def words(finding: Document) -> list[tuple[str, str, str]]:
    """A few lines for a terminal, (time, who, what): decisions, restarts and strikes; votes are left out."""
    told = story(finding)
    worth = [each for each in told.happenings if each.kind != "acknowledged"]
    first = next((index for index, each in enumerate(worth) if each.kind == "strike"), 0)
    start = max(0, min(first - 2, len(worth) - LINES_OF_WORDS + 1))
    kept = worth[start : start + LINES_OF_WORDS - 1]
    lines = [(f"{each.at:.3f}", each.actor, sentence(each)) for each in kept]
    return [*lines, ("end", READER, told.ending)] if lines else []


def sentence(each: Happening) -> str:
    """One event in words."""
    checkpoint = f"checkpoint {each.checkpoint}"
    match each.kind:
        case "strike":
            return f"{BOLT} {each.fault} at {each.point}"
        case "generation":
            return f"{generation_name(each)} begins"
        case "acknowledged":
            return f"acknowledges {checkpoint}"
        case "complete":
            return f"{checkpoint} is complete"
        case "declined":
            return f"declines {checkpoint}"
        case _:
            return each.text


def generation_name(each: Happening) -> str:
    return f"generation {each.begun}"


def ending(finding: Document) -> str:
    """What the reader has too few or too many of, in one line."""
    too_many = EXTRA_MEANS.get(finding["oracle"], "too many")
    parts = [
        f"{facts.plural(facts.rows_total(finding, kind), 'row')} {meaning}: {_some_rows(finding[kind])}"
        for kind, meaning in (("lost", "lost"), ("extra", too_many))
        if facts.rows_total(finding, kind)
    ]
    return "; ".join(parts) or f"{finding['oracle']}: {shortened(finding['why'])}"


def _some_rows(rows: Sequence[Sequence[object]]) -> str:
    shown = ", ".join(map(facts.row_text, rows[:ROWS_NAMED]))
    return f"{shown}, …" if len(rows) > ROWS_NAMED else shown


def shortened(text: str, *, most: int = WORDS_LONGEST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _happening(event: Mapping[str, object]) -> Happening:
    who, what = str(event["actor"]), str(event["what"])
    actor, told = ACTOR.fullmatch(who), WHAT.fullmatch(what)
    word, detail = (told["word"], told["detail"]) if told else (what, "")
    common = Happening(
        at=float(str(event["at"])),
        actor=actor["name"] if actor else who,
        generation=int(actor["generation"]) if actor else None,
        kind="other",
        text=shortened(what),
    )
    if event["struck"]:
        return replace(common, kind="strike", point=word, fault=detail or "struck")
    if word == "generation":
        return replace(common, kind="generation")
    if word in OF_A_CHECKPOINT and detail.isdigit():
        return replace(common, kind=word, checkpoint=int(detail))
    return common


def _counted(happenings: Sequence[Happening]) -> list[Happening]:
    """Each with its generation's place in the story. A job that begins anew may begin its clock anew: time goes on."""
    begun, before, added = 0, 0.0, 0.0
    counted = []
    for each in happenings:
        begun += each.kind == "generation"
        if each.at + added < before:
            added = before
        before = each.at + added
        counted.append(replace(each, begun=begun, at=before))
    return counted


def _shown(happenings: Sequence[Happening]) -> list[Happening]:
    """All of a short story; of a long one what surrounds the first strikes, every strike, and both ends."""
    length = len(happenings)
    if length <= EVENTS_SHOWN:
        return list(happenings)
    strikes = [index for index, each in enumerate(happenings) if each.kind == "strike"]
    near = [
        range(index - EVENTS_AROUND_STRIKE, index + EVENTS_AROUND_STRIKE + 1) for index in strikes[:STRIKES_FOLLOWED]
    ]
    ends = [range(3), range(length - 4, length)]
    wanted = {index for part in [*near, *ends] for index in part if 0 <= index < length}
    kept = sorted(wanted | set(strikes[: EVENTS_SHOWN - len(wanted)]))
    gaps = [index - before - 1 for before, index in zip([-1, *kept], kept, strict=False)]
    return [replace(happenings[index], left_out=gap) for index, gap in zip(kept, gaps, strict=True)]


def _place(actor: str) -> tuple[int, str, int]:
    """Coordinator first, then sources, whatever lies between, sinks, and the reader last; by number."""
    kind, _, number = actor.partition("[")
    ranks = {COORDINATOR: 0, "source": 1, "sink": 3, READER: 4}
    digits = "".join(filter(str.isdigit, number or kind))
    return ranks.get(kind, 2), kind.rstrip("0123456789"), int(digits or 0)
