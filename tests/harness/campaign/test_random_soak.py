"""Random schedules: what can be drawn, that it is shrunk to one line, and that this line is replayed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from sinkproof import replay
from sinkproof.campaign.random_soak import soak
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule, ScheduleError, parse
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.judging.verdict_and_exit_codes import Verdict
from sinkproof.strategies import interleavings, jobs, orders, run_in, schedules, tried
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.workload.jobs import named_job
from sinkproof.workload.made_jobs import made_job, shape_name

SINKS = Path(__file__).parents[2].joinpath("support/explored_sinks.py")


@pytest.fixture
def soaked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Soaks a contract; the tally. Hypothesis's database goes into a folder of the test."""
    monkeypatch.chdir(tmp_path)
    folder = fresh_folder()

    def run(name: str, *, seconds: float) -> CampaignResults:
        contract = load(f"{SINKS}:{name}")
        results = CampaignResults(contract=contract, shell="simulated")
        with ScheduleRunner(contract, Scratch(name="soak", path=folder)) as runner:
            soak(runner, results, seconds=seconds)
        return results

    yield run
    shutil.rmtree(folder)


def test_a_finding_of_a_soak_is_one_short_schedule_that_replay_shows_again(soaked: Any) -> None:
    results = soaked("ListContract", seconds=60)
    (finding,) = results.findings
    assert "O1" == finding.oracle
    assert finding.claimed
    schedule = parse(finding.schedule)
    assert len(schedule.faults) <= 1
    assert (0, 0) == (schedule.seed, schedule.ids)
    assert finding.timeline
    again = replay(finding.schedule, f"{SINKS}:ListContract", here=True)
    assert again.verdict is Verdict.VIOLATED
    assert list(Path(".hypothesis/examples").iterdir()), "the failing example is kept"


@pytest.mark.slow
def test_a_right_sink_is_soaked_for_the_whole_time_and_the_results_say_how_much(soaked: Any) -> None:
    results = soaked("CarefulContract", seconds=0.5)
    assert [] == results.findings
    assert results.coverage.runs > 0
    assert results.coverage.rows_committed > 0
    (note,) = results.notes
    assert note.startswith(f"a soak of {results.coverage.runs} random schedules")


@settings(max_examples=60)
@given(schedule=schedules())
def test_every_drawn_schedule_is_parsed_back(schedule: Schedule) -> None:
    assert schedule == parse(str(schedule))


@settings(max_examples=25, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(schedule=schedules(faults_most=3))
def test_our_two_phase_sink_survives_what_is_drawn(schedule: Schedule) -> None:
    run_result = tried("memory/two-phase", schedule)
    assert () == run_result.anomalies, schedule
    assert run_result.finished


@pytest.mark.slow
def test_a_user_s_own_test_finds_the_smallest_failing_schedule() -> None:
    folder = fresh_folder()
    with ScheduleRunner(load(f"{SINKS}:ListContract"), Scratch(name="own", path=folder)) as runner:
        found = find(
            schedules(faults_most=2),
            lambda schedule: any(anomaly.oracle == "O1" for anomaly in run_in(runner, schedule).anomalies),
            settings=settings(max_examples=2000, database=None),
        )
    shutil.rmtree(folder)
    assert len(found.faults) + len(found.orders) <= 2


@pytest.mark.slow
def test_jobs_are_drawn_in_many_shapes_and_shrink_to_the_standard_one() -> None:
    assert "standard" == find(jobs(), lambda name: True)
    widest = find(jobs(), lambda name: name != "standard" and made_job(name)[1].splits == 3)
    assert "made-3-1-1-1-1" == widest
    assert 0 == find(interleavings(), lambda seed: True)
    assert () == find(orders(), lambda found: True)


def test_a_made_job_delivers_every_row_and_is_replayed_by_its_name() -> None:
    schedule = parse(f"job={shape_name(sources=3, sinks=2, rows=7, batch=2, every=1)} sink[1].write.after#2=kill")
    run_result = tried("memory/two-phase", schedule)
    assert (True, (), 21) == (run_result.fired, run_result.anomalies, run_result.rows_committed)
    assert "source[2]" in run_result.names


@pytest.mark.parametrize("name", ["made-", "made-2-2-12-2", "made-9-1-1-1-1", "made-1-1-1-1-0", "made-a-1-1-1-1"])
def test_a_job_that_cannot_be_made_says_what_its_name_means(name: str) -> None:
    with pytest.raises(ScheduleError, match="made-2-3-12-2-2: sources 1 to 4"):
        named_job(name)
