"""A soak: random schedules for a given time, beyond those of a campaign. A schedule that breaks a claim is shrunk.

Hypothesis draws and shrinks schedules, and keeps the failing ones in its database, so the next soak begins with them.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.shrinking import smallest
from sinkproof.judging.oracle import Anomaly
from sinkproof.strategies import DEFAULT_KINDS, run_in, schedules
from sinkproof.subject.claims import ORACLE_CLAIMS

DATABASE: Final = ".hypothesis/examples"
EXAMPLES_AT_ONCE: Final = 200  # Hypothesis slows down when it has drawn many thousands from one seed
HARMLESS: Final = ("kill-job", "lose", "decline")  # no attempt dies of them with the sink's code on its stack


class Broken(Exception):
    """A claim broke. Hypothesis shrinks its schedule."""

    def __init__(self, anomaly: Anomaly, run_result: RunResult) -> None:
        super().__init__(anomaly.oracle)
        self.anomaly, self.run_result = anomaly, run_result


def soak(runner: ScheduleRunner, results: CampaignResults, *, seconds: float, first_seed: int = 0) -> None:
    """Until the time is up or a claim is broken; fills the results."""
    deadline, runs, round_number = Deadline(seconds), results.coverage.runs, first_seed
    while not deadline.over:
        broken = _draw(runner, results, round_number=round_number, deadline=deadline)
        if broken is not None:
            _report(runner, results, broken)
            break
        round_number += 1
    results.notes.append(
        f"a soak of {results.coverage.runs - runs:,} random schedules, {round_number - first_seed + 1} seeds"
    )


def _draw(runner: ScheduleRunner, results: CampaignResults, *, round_number: int, deadline: Deadline) -> Broken | None:
    contract = runner.contract
    kinds = DEFAULT_KINDS if contract.copies else HARMLESS

    @settings(
        max_examples=EXAMPLES_AT_ONCE,
        deadline=None,
        database=DirectoryBasedExampleDatabase(DATABASE),
        print_blob=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )
    @seed(round_number)  # inside: it would turn the database off
    @given(schedule=schedules(kinds=kinds))
    def one(schedule: Schedule) -> None:
        if deadline.over and not broken:
            return
        results.progress.step(str(schedule), 0)
        run_result = run_in(runner, schedule)
        results.coverage.runs += 1
        results.coverage.rows_committed += run_result.rows_committed
        for anomaly in run_result.anomalies:
            if ORACLE_CLAIMS[anomaly.oracle] & contract.claims:
                broken.append(schedule)
                raise Broken(anomaly, run_result)

    broken: list[Schedule] = []
    try:
        one()
    except Broken as found:
        return found
    return None


def _report(runner: ScheduleRunner, results: CampaignResults, broken: Broken) -> None:
    found = smallest(runner, broken.run_result.schedule, oracle=broken.anomaly.oracle)
    if found is not None:
        results.find(found.anomaly, found.schedule, result=found.result, counted=False)
    else:
        results.find(broken.anomaly, broken.run_result.schedule, result=broken.run_result, counted=False)
