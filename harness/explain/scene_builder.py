"""Builds one scene statement by statement: what ran, its timeline, the facts observed, and the checks of them."""

from __future__ import annotations

from typing import Any

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.demonstration import Check, Fact, Scene, TimelineEntry
from sinkproof.explain.timeline import timeline


class SceneBuilder:
    """`unit`: of the timeline."""

    def __init__(self, title: str, *, unit: str = "ms") -> None:
        self.title, self.unit = title, unit
        self.steps: tuple[TimelineEntry, ...] = ()
        self.facts: list[Fact] = []
        self.checks: list[Check] = []

    def ran(self, text: str) -> None:
        """What was run, in enough detail to run it again."""
        self.what_ran = text

    def timeline(self, run: RecordedRun, *kinds: str, **window: Any) -> None:
        """`window`: keywords of timeline()."""
        self.steps = timeline(run, *kinds, **window)

    def fact(self, says: str, value: Any, *, varies: bool = False) -> None:
        self.facts.append(Fact(says=says, value=value, varies=varies))

    def check(self, what: str, expected: Any, observed: Any) -> None:
        self.checks.append(Check(what=what, expected=expected, observed=observed))

    def check_each_row_once(self, run: RecordedRun) -> None:
        self.check("no row is lost or repeated", ([], []), run.lost_and_repeated)

    def outcome(self, text: str) -> Scene:
        """The finished scene. `text`: in words, made of what was observed."""
        return Scene(
            title=self.title,
            ran=self.what_ran,
            outcome=text,
            steps=self.steps,
            unit=self.unit,
            facts=tuple(self.facts),
            checks=tuple(self.checks),
        )
