"""The runs of a campaign: how each was run, its schedule, how it ended. Some of those of a kept result are repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.crash_copies import run_with_copies
from sinkproof.judging.oracle import Anomaly

RUNS_MOST: Final = 20_000  # some 100 bytes each; of more runs every second one, then every fourth
ALONE: Final = ""
BESIDE_A_READER: Final = "reader"
FROM_COPIES: Final = "copies"  # of the durable state, as closures run


class JudgedRun(NamedTuple):
    """`name`: a schedule; of a canary, its name. `ending`: what a repetition must equal."""

    how: str
    name: str
    ending: str


@dataclass(slots=True)
class RunLog:
    runs: list[JudgedRun] = field(default_factory=list)
    noted: int = 0
    every: int = 1

    def note(self, how: str, schedule: Schedule, ending: str) -> None:
        self.noted += 1
        if self.noted % self.every:
            return
        self.runs.append(JudgedRun(how, str(schedule), ending))
        if len(self.runs) > RUNS_MOST:
            self.runs, self.every = self.runs[1::2], 2 * self.every

    def note_result(self, result: RunResult) -> None:
        self.note(BESIDE_A_READER if result.read_concurrently else ALONE, result.schedule, ending(result.anomalies))


def ending(anomalies: Sequence[Anomaly]) -> str:
    """What the verdict rests on. Numbers of rows and points differ from run to run where processes race."""
    return " ".join(sorted({anomaly.oracle for anomaly in anomalies})) or "right"


def schedule_of(judged: JudgedRun) -> Schedule:
    return parse(judged.name, kinds=frozenset(KINDS))


def run_once_more(runner: ScheduleRunner, judged: JudgedRun) -> RunResult:
    schedule = schedule_of(judged)
    lines = any(is_line(fault.point) for fault in schedule.faults)
    if judged.how == FROM_COPIES:
        return run_with_copies(runner, schedule, trace_lines=lines)
    return runner.run(schedule, trace_lines=lines, concurrent_reader=judged.how == BESIDE_A_READER)
