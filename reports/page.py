"""The certificate as one self-contained HTML page: no script, no network, light and dark, readable without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from sinkproof.reports import facts
from sinkproof.reports.document import Document

TEMPLATE: Final = "page.html.j2"
EVENTS_SHOWN: Final = 60  # of one timeline: about what fits on a printed page
EVENTS_AROUND_STRIKE: Final = 6
LANES_MAX: Final = 5  # more actors than this do not fit side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One line of the shown timeline; where `left_out` is positive it stands for that many events instead."""

    at: str = ""
    actor: str = ""
    what: str = ""
    struck: bool = False
    left_out: int = 0


def render(document: Mapping[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    return environment.get_template(TEMPLATE).render(
        document=facts.filled(document), facts=facts, moments=moments, actors=actors, environment_text=environment_text
    )


def actors(timeline: Sequence[Document]) -> list[str]:
    """The lanes of a timeline; none where there are too many to stand side by side."""
    names = list(dict.fromkeys(event["actor"] for event in timeline))
    return names if 1 < len(names) <= LANES_MAX else []


def moments(timeline: Sequence[Document]) -> list[Moment]:
    """The events to show: all of a short timeline; of a long one what surrounds each strike, and the end."""
    kept = _kept(timeline)
    shown: list[Moment] = []
    for index in range(len(timeline)):
        if index in kept:
            event = timeline[index]
            shown.append(
                Moment(at=f"{event['at']:.3f}", actor=event["actor"], what=event["what"], struck=event["struck"])
            )
        elif shown and shown[-1].left_out:
            shown[-1] = Moment(left_out=shown[-1].left_out + 1)
        else:
            shown.append(Moment(left_out=1))
    return shown


def _kept(timeline: Sequence[Document]) -> set[int]:
    length = len(timeline)
    if length <= EVENTS_SHOWN:
        return set(range(length))
    strikes = [index for index, event in enumerate(timeline) if event["struck"]]
    near = [range(index - EVENTS_AROUND_STRIKE, index + EVENTS_AROUND_STRIKE + 1) for index in strikes[:3]]
    ends = [range(EVENTS_AROUND_STRIKE), range(length - EVENTS_AROUND_STRIKE, length)]
    return {index for part in [*near, *ends] for index in part if 0 <= index < length} | set(strikes)


def environment_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {environment_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(environment_text(item) for item in value)
    return "" if value is None else str(value)


def _source(name: str) -> str:
    return resources.files(__package__ or "sinkproof.reports").joinpath(name).read_text("utf-8")


def _final(value: object) -> object:
    return value if isinstance(value, Markup) else facts.visible(value)
