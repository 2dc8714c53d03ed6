"""Crashes a pair once at each step of the coordinator and of one sink, and grades what it delivers."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import cycle
from typing import Any, Final, NamedTuple

from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.claims import ORACLE_CLAIMS, Claim, Grade

ACTORS: Final = re.compile(r"coordinator|sink\[0\]")  # the others pass the same steps
KINDS: Final = ("kill-job", "kill")
Report = Callable[[str, int], Any]  # receives a schedule, and the number of schedules


class Crashed(NamedTuple):
    """`shown`: of every oracle with an anomaly in any run, the first schedule, and what was wrong."""

    crashes: int
    shown: dict[str, str]
    worst: str  # the first schedule that lowered the grade to its final value; "" if none did

    @property
    def oracles(self) -> set[str]:
        return set(self.shown)

    @property
    def grade(self) -> Grade:
        return Grade.of(self.oracles)

    def broken(self, claims: Claim) -> list[str]:
        """What was wrong that breaks one of these claims."""
        return [f"{oracle} {what}" for oracle, what in self.shown.items() if ORACLE_CLAIMS[oracle] & claims]


def crashed_everywhere(runner: ScheduleRunner, *, report: Report = lambda schedule, count: None) -> Crashed:
    """Kills job and process in turn: where a step is passed for the second time, if it is, as rows are pending then."""
    baseline = runner.run(Schedule())
    steps = [
        (actor, point) for actor, point in dict.fromkeys(baseline.trace) if ACTORS.fullmatch(baseline.names[actor])
    ]
    shown = {anomaly.oracle: f"without a crash: {anomaly.why}" for anomaly in baseline.anomalies}
    grade, worst, crashes = Grade.of(set(shown)), "", 0
    for (actor, point), kind in zip(steps, cycle(KINDS)):
        occurrence = min(2, baseline.trace.count((actor, point)))
        schedule = Schedule((Fault(baseline.names[actor], point, occurrence, kind),))
        report(str(schedule), len(steps))
        run_result = runner.run(schedule)
        crashes += bool(run_result.struck)
        shown = {anomaly.oracle: f"{schedule}: {anomaly.why}" for anomaly in run_result.anomalies} | shown
        if Grade.of(set(shown)) is not grade:
            grade, worst = Grade.of(set(shown)), str(schedule)
    return Crashed(crashes, shown, worst)
