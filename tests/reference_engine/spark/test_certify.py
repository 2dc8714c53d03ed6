"""The main command on Spark: what is counted, what is found, what is refused."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkproof.campaign.campaign_budget import conclude
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.spark_campaign import FULL_SECONDS, SparkCampaign
from sinkproof.campaign.spark_endurance import EnduranceJob, EndurancePlan
from sinkproof.campaign.spark_plan import SPARK_PLAN
from sinkproof.canaries.catalogue import CONTROLS_ON_SPARK
from sinkproof.canaries.conviction import canaries_for
from sinkproof.chaos.schedule import parse
from sinkproof.cli.certify_command import default_budget
from sinkproof.execution.spark_row_difference import Difference
from sinkproof.execution.spark_runner import SparkRunner, spark_runner, spark_runner_on
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.logged_runs import certificate, logged, numbers_beyond
from ...support.zoo_campaigns import Stopping

LOCAL = "local[6,100000]"
COUNTED = ("kill at each step", "error at each call")
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def runner(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SparkRunner]:
    contract = load(getattr(request, "param", "files/two-phase"))
    with spark_runner_on(cluster, contract, Scratch(name="test", path=tmp_path, shell="spark")) as made:
        yield made


def test_a_run_without_faults_is_not_restarted(runner: SparkRunner) -> None:
    run_result = runner.run(parse("no-fault"))
    assert (True, (), 24) == (run_result.finished, run_result.anomalies, run_result.rows_committed)
    assert 1 == sum(what == "generation" for _, _, _, what, _ in run_result.history)
    assert {"write.before", "commit.after", "checkpoint.persist.after"} <= {point for _, point in run_result.trace}


@pytest.mark.parametrize(
    "schedule",
    [
        "sink[0].commit.after#2=kill",
        "checkpoint.persist.after#2=kill",
        "sink[1].notify_complete.before#1=kill-worker",
        "sink[1].acknowledge.before#2=decline sink[1].notify_aborted.before#1=kill",
        "checkpoint.notify#2=lose",
        "job=zombie-late sink[0].commit.before#1=stop",
        "sink[0].end_of_input.after#1=kill",
    ],
)
def test_one_row_is_committed_once_whatever_dies(runner: SparkRunner, schedule: str) -> None:
    run_result = runner.run(parse(schedule))
    assert parse(schedule).faults == run_result.struck
    assert (True, (), 24) == (run_result.finished, run_result.anomalies, run_result.rows_committed)
    kills = sum(fault.kind in ("kill", "kill-worker") for fault in run_result.struck)
    assert kills == run_result.kills  # each of them from a wait status


def test_a_paused_attempt_is_not_replaced(runner: SparkRunner) -> None:
    run_result = runner.run(parse("sink[0].commit.before#1=pause"))
    assert (True, True, (), 24) == (
        run_result.fired,
        run_result.finished,
        run_result.anomalies,
        run_result.rows_committed,
    )
    assert 1 == sum(what == "generation" for _, _, _, what, _ in run_result.history)


def test_the_whole_job_dies_and_goes_on_from_its_last_checkpoint(runner: SparkRunner) -> None:
    drivers = runner.cluster.drivers
    run_result = runner.run(parse("sink[0].notify_complete.before#2=kill-job"))
    assert (True, (), 24, 1) == (run_result.finished, run_result.anomalies, run_result.rows_committed, run_result.kills)
    assert drivers + 1 == runner.cluster.drivers


@pytest.mark.longer
def test_executors_of_their_own_may_die_as_well(runner: SparkRunner, tmp_path: Path) -> None:
    """In a second cluster of this process; its end is not the end of the first."""
    contract, folder = load("files/two-phase"), tmp_path / "second"
    folder.mkdir()
    scratch = Scratch(name="test", path=folder, shell="spark")
    with spark_runner(contract, scratch, master="local-cluster[2,2,1024]") as second:
        for schedule in ("sink[0].commit.after#2=kill", "sink[1].notify_complete.before#2=kill-executor"):
            run_result = second.run(parse(schedule))
            assert parse(schedule).faults == run_result.struck
            assert (True, (), 24) == (run_result.finished, run_result.anomalies, run_result.rows_committed)
        assert 1 == second.cluster.drivers
    drivers = runner.cluster.drivers
    assert 24 == runner.run(parse("no-fault")).rows_committed
    assert drivers == runner.cluster.drivers


def test_a_driver_goes_with_its_jvm(runner: SparkRunner) -> None:
    drivers = runner.cluster.drivers
    run_result = runner.run(parse("sink[1].notify_complete.before#2=kill-executor"))
    assert (True, (), 24) == (run_result.finished, run_result.anomalies, run_result.rows_committed)
    assert drivers + 1 == runner.cluster.drivers


@pytest.mark.parametrize("runner", ["files/plain"], indirect=True)
def test_what_is_written_straight_through_is_found_twice(runner: SparkRunner) -> None:
    run_result = runner.run(parse("sink[0].write.after#2=kill"))
    assert "O2" in {anomaly.oracle for anomaly in run_result.anomalies}


def test_the_long_job_is_exact_over_many_deaths(runner: SparkRunner) -> None:
    steps = [("sink[0]", "write.after"), ("sink[1]", "commit.after"), ("sink[0]", "open.after")]
    steps += [("coordinator", "checkpoint.persist.after"), ("source[0]", "acknowledge.before")]
    plan = EndurancePlan(attempts=6, coordinators=2, workers=1, rows=20_000)
    outcome = EnduranceJob(runner, plan, steps=steps, progress=SILENT).run()
    assert (True, ()) == (outcome.run_result.finished, outcome.run_result.anomalies)
    assert len(outcome.run_result.struck) == outcome.run_result.kills >= 9
    assert outcome.run_result.rows_committed >= 20_000


def test_the_certificate_says_how_many_faults_the_long_job_has_survived(runner: SparkRunner) -> None:
    results = CampaignResults(contract=runner.contract, shell="spark")
    plan = EndurancePlan(attempts=2, rows=2_000)
    campaign = SparkCampaign(runner, results, endurance=plan)
    campaign.carry_out([stage for stage in SPARK_PLAN if stage.name == "endurance job"])
    (sentence,) = results.document(seconds=1.0, closure=None).long_jobs
    assert re.fullmatch(r"the endurance job: [\d,]+ rows committed over 2 x kill", sentence)


def test_the_oracle_on_spark_finds_what_is_lost_and_what_is_too_much(runner: SparkRunner) -> None:
    runner.run(parse("no-fault"))
    difference = "sinkproof.execution.spark_row_difference:difference"
    exact = Difference(rows=24, lost=(), lost_total=0, extra=(), extra_total=0)
    assert exact == runner.cluster.call(difference, runner.subject, {0: 12, 1: 12})
    more_was_read: Difference = runner.cluster.call(difference, runner.subject, {0: 14, 1: 12})
    assert (((0, 12), (0, 13)), 2, 0) == (more_was_read.lost, more_was_read.lost_total, more_was_read.extra_total)
    less_was_read: Difference = runner.cluster.call(difference, runner.subject, {0: 12, 1: 11})
    assert (0, ((1, 11),), 1) == (less_was_read.lost_total, less_was_read.extra, less_was_read.extra_total)
    part = next(runner.scratch.path.glob("committed/sink/*.jsonl"))
    part.with_name(part.name.replace("part-0", "part-1")).write_bytes(part.read_bytes())
    repeated: Difference = runner.cluster.call(difference, runner.subject, {0: 12, 1: 12})
    assert len(part.read_text().splitlines()) == repeated.extra_total > 0


def test_no_number_of_a_campaign_is_more_than_what_its_processes_have_logged(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract, plan = load("files/two-phase"), [stage for stage in SPARK_PLAN if stage.name in COUNTED]
    results, enough = CampaignResults(contract=contract, shell="spark"), Stopping(lambda results, asked: asked >= 16)
    scratch = Scratch(name="test", path=tmp_path / "scratch", shell="spark")
    scratch.path.mkdir()
    with logged(tmp_path / "runs", monkeypatch) as reader, spark_runner_on(cluster, contract, scratch) as runner:
        SparkCampaign(runner, results, endurance=EndurancePlan(), should_stop=enough).carry_out(plan)
        log = reader.new()
    (shell,) = certificate("files/two-phase", conclude(results, seconds=1.0, closure=None))["shells"]
    assert [] == numbers_beyond(shell, log)
    assert 16 <= shell["schedules_run"] <= len(log)
    assert shell["kills"] >= 8


@pytest.mark.slow
@pytest.mark.longer
def test_the_command_upholds_a_right_sink_on_spark(sinkproof_command: Command) -> None:
    done = sinkproof_command("certify", "files/two-phase", "--on", "spark", "--budget", "least", "--json")
    document = json.loads(done.stdout)
    tried = document["canaries"]
    assert len(canaries_for("spark")) + CONTROLS_ON_SPARK == len(tried)
    assert [] == [(each["name"], each["why"]) for each in tried if each["convicted"] is each["control"]]
    (subject,) = document["subjects"]
    assert (0, "upheld", "exactly-once") == (done.returncode, subject["verdict"], subject["grade"]), subject["why"]
    (shell,) = subject["shells"]
    assert "spark" == shell["shell"]
    assert shell["kills"] >= 40
    assert shell["points_total"] == len(shell["points_reached"])


@pytest.mark.slow
def test_a_pair_without_a_spark_form_is_refused(sinkproof_command: Command) -> None:
    done = sinkproof_command("certify", "memory/two-phase", "--on", "spark")
    assert 3 == done.returncode
    assert "memory/two-phase does not run in spark. Name a shell of simulated, process with --on" in done.stderr


@pytest.mark.slow
def test_too_few_slots_are_refused_with_the_number_needed(sinkproof_command: Command) -> None:
    arguments = ("certify", "files/two-phase", "--on", "spark", "--master", "local[2]", "--no-canaries")
    done = sinkproof_command(*arguments)
    assert 3 == done.returncode
    assert "local[2] offers 2 slots, and the job has 4 tasks" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_usual_budget_is_enough_for_the_long_job_in_full() -> None:
    assert 20.0 == default_budget(("my_sink.py:Mine",), ("simulated", "process"), LOCAL)
    assert default_budget(("files/two-phase",), ("spark",), LOCAL) >= FULL_SECONDS
    assert default_budget(("files/two-phase",), ("simulated", "process"), LOCAL) < FULL_SECONDS
    assert default_budget(("kafka/two-phase",), ("spark",), LOCAL) > FULL_SECONDS
    assert default_budget(("files/two-phase",), ("spark",), "cluster:3") > FULL_SECONDS
