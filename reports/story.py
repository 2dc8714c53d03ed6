"""Parses a finding's timeline into events: actor, generation, checkpoint, injected fault.

The document keeps events as text ("acknowledged: 2" by "sink[0] (generation 700002)"). Text that is not recognised is
kept unchanged. The picture in the page and the timeline in a terminal are made of these events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.at_target import target_words
from sinkproof.reports.document import Document

COORDINATOR: Final = "coordinator"
READER: Final = "reader"
ACTOR: Final = re.compile(r"(?P<name>.+?) \(generation (?P<generation>\d+)\)")
WHAT: Final = re.compile(r"(?P<word>.+?): (?P<detail>.+)", re.DOTALL)
OF_A_CHECKPOINT: Final = ("acknowledged", "complete", "declined", "upload cancelled", "not durable", "aborted")
EVENTS_SHOWN: Final = 60  # of one timeline: more cannot be distinguished in a picture as wide as a page
EVENTS_AROUND_FAULT: Final = 7
FAULTS_FOLLOWED: Final = 3
BOLT: Final = "⚡"
LINES_OF_WORDS: Final = 9
LINES_WITH_CHANGES: Final = 11  # where the effects on the target are known, too
CHANGES_TOLD: Final = 3
EXTRA_MEANS: Final = {"O3": "seen early or again", "O9": "added by a replaced attempt"}
WORDS_LONGEST: Final = 90  # of one event: a sink's own error may be a page

# What a kind of fault does: it ends or suspends one attempt, or ends the whole job; others do none of these.
STOPS_ATTEMPT: Final = re.compile(r"kill|die|death|crash|error|fail|land|stop|depose|pause|zombie")
ENDS_JOB: Final = re.compile(r"job|power|bytes|names|rewind|forget|drain|cancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """One parsed event. `kind`: fault, generation, one of OF_A_CHECKPOINT, change (of the target), or other."""

    at: float
    actor: str
    generation: int | None
    kind: str
    text: str
    checkpoint: int | None = None
    fault: str = ""
    point: str = ""
    begun: int = 0  # the number of generations so far; the engine's own numbers look like 700002
    change: Mapping[str, Any] | None = None  # of the target
    left_out: int = 0  # number of events not shown right before this one

    def stops(self, actor: str) -> bool:
        """Whether a fault ends or suspends the attempt of this actor here."""
        hit = self.actor == actor and STOPS_ATTEMPT.search(self.fault)
        return self.kind == "fault" and bool(hit or ENDS_JOB.search(self.fault))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """`actors` in the order of the protocol."""

    events: tuple[StoryEvent, ...]
    actors: tuple[str, ...]
    ending: str  # what the reader observed in the end


def story(finding: Document) -> Timeline:
    shown = _shown(_counted(_with_changes(finding)))
    return Timeline(
        events=tuple(shown),
        actors=tuple(sorted(dict.fromkeys(each.actor for each in shown), key=_place)),
        ending=ending(finding),
    )


def words(finding: Document) -> list[tuple[str, str, str]]:
    """A few lines for a terminal, (time, actor, what): decisions, restarts and faults, without acknowledgements."""
    timeline = story(finding)
    worth = [each for each in timeline.events if each.kind != "acknowledged"]
    first = next((index for index, each in enumerate(worth) if each.kind == "fault"), 0)
    lines_most = LINES_OF_WORDS if not finding["target"] else LINES_WITH_CHANGES
    start = max(0, min(first - 2, len(worth) - lines_most + 1))
    kept = worth[start : start + lines_most - 1]
    lines = [(f"{each.at:.3f}", each.actor, sentence(each)) for each in kept]
    return [*lines, ("end", READER, timeline.ending)] if lines else []


def _with_changes(finding: Document) -> list[StoryEvent]:
    """The events of the timeline; between them the changes of the target, where they are known."""
    events: list[StoryEvent] = []
    changes = [each for each in (finding["target"] or {"changes": []})["changes"] if not each["struck"]]
    for place, event in enumerate([*finding["timeline"], None]):
        while changes and (event is None or changes[0]["place"] <= place):
            events.append(_change_event(changes.pop(0)))
        events += [_story_event(event)] if event is not None else []
    return events


def _change_event(change: Mapping[str, Any]) -> StoryEvent:
    text = target_words.sentence(change)
    return StoryEvent(at=change["at"], actor=change["actor"], generation=None, kind="change", text=text, change=change)


def at_target(finding: Document) -> list[str]:
    """How often its rows were visible, and the first changes that made rows appear once more, or vanish."""
    if not finding["target"]:
        return []
    wrong = [each for each in story(finding).events if each.change and target_words.is_wrong(each.change)]
    told = [f"{each.at:.3f} {each.actor}: {sentence(each)}" for each in wrong[:CHANGES_TOLD]]
    return [*target_words.seen(finding["target"]["rows"]), *told, *target_words.left_out(finding["target"])]


def sentence(each: StoryEvent) -> str:
    """One event in words."""
    checkpoint = f"checkpoint {each.checkpoint}"
    match each.kind:
        case "fault":
            return f"{BOLT} {each.fault} at {each.point}"
        case "generation":
            return f"{generation_name(each)} begins"
        case "acknowledged":
            return f"acknowledges {checkpoint}"
        case "complete":
            return f"{checkpoint} is complete"
        case "declined":
            return f"declines {checkpoint}"
        case "change" if each.change and each.begun > each.change["generation"]:
            return f"as generation {each.change['generation']}, {each.text}"
        case _:
            return each.text


def generation_name(each: StoryEvent) -> str:
    return f"generation {each.begun}"


def ending(finding: Document) -> str:
    """The rows lost and extra, in one line."""
    too_many = EXTRA_MEANS.get(finding["oracle"], "too many")
    parts = [
        f"{facts.plural(facts.rows_total(finding, kind), 'row')} {meaning}: {target_words.named(finding[kind])}"
        for kind, meaning in (("lost", facts.rows_called(finding, "lost")), ("extra", too_many))
        if facts.rows_total(finding, kind)
    ]
    return "; ".join(parts) or f"{finding['oracle']}: {shortened(finding['why'])}"


def shortened(text: str, *, most: int = WORDS_LONGEST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _story_event(event: Mapping[str, object]) -> StoryEvent:
    actor_text, what = str(event["actor"]), str(event["what"])
    actor, phrase = ACTOR.fullmatch(actor_text), WHAT.fullmatch(what)
    word, detail = (phrase["word"], phrase["detail"]) if phrase else (what, "")
    common = StoryEvent(
        at=float(str(event["at"])),
        actor=actor["name"] if actor else actor_text,
        generation=int(actor["generation"]) if actor else None,
        kind="other",
        text=shortened(what),
    )
    if event["struck"]:
        return replace(common, kind="fault", point=word, fault=detail or "fault")
    if word == "generation":
        return replace(common, kind="generation")
    if word in OF_A_CHECKPOINT and detail.isdigit():
        return replace(common, kind=word, checkpoint=int(detail))
    return common


def _counted(events: Sequence[StoryEvent]) -> list[StoryEvent]:
    """Adds the number of generations so far. A restarted job may restart its clock: times are made to rise."""
    begun, before, added = 0, 0.0, 0.0
    counted = []
    for each in events:
        begun += each.kind == "generation"
        if each.at + added < before:
            added = before
        before = each.at + added
        counted.append(replace(each, begun=begun, at=before))
    return counted


def _shown(events: Sequence[StoryEvent]) -> list[StoryEvent]:
    """All events of a short timeline; of a long one those around the first faults, every fault, and both ends."""
    length = len(events)
    if length <= EVENTS_SHOWN:
        return list(events)
    faults = [index for index, each in enumerate(events) if each.kind == "fault"]
    near = [range(index - EVENTS_AROUND_FAULT, index + EVENTS_AROUND_FAULT + 1) for index in faults[:FAULTS_FOLLOWED]]
    ends = [range(3), range(length - 4, length)]
    wanted = {index for part in [*near, *ends] for index in part if 0 <= index < length}
    kept = sorted(wanted | set(faults[: EVENTS_SHOWN - len(wanted)]))
    gaps = [index - before - 1 for before, index in zip([-1, *kept], kept, strict=False)]
    return [replace(events[index], left_out=gap) for index, gap in zip(kept, gaps, strict=True)]


def _place(actor: str) -> tuple[int, str, int]:
    """Coordinator first, then sources, operators, sinks, and the reader last; by number."""
    kind, _, number = actor.partition("[")
    ranks = {COORDINATOR: 0, "source": 1, "sink": 3, READER: 4}
    digits = "".join(filter(str.isdigit, number or kind))
    return ranks.get(kind, 2), kind.rstrip("0123456789"), int(digits or 0)
