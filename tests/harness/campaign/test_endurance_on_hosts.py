"""The endurance job on hosts: which kind strikes at which step, and how often; without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign import spark_endurance
from sinkproof.campaign.spark_campaign import CUTS_LEAST, DEAD_LEAST, ON_HOSTS, on_hosts, too_few
from sinkproof.campaign.spark_endurance import EnduranceJob, EnduranceOutcome, StepsOfHosts, steps_of_hosts
from sinkproof.chaos.faults.faults_of_hosts import CUT, CUT_ALL, CUTS, HEAL, KILL_HOST, SENTENCES, SLOW_LINK
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.execution.run_result import RunResult
from sinkproof.reference_engine.shells.spark.driver_supervisor import SparkFailed
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reports.progress import Progress
from sinkproof.subject.scratch import Scratch

CALLS = ("open", "fence", "begin", "write", "pre_commit", "snapshot", "acknowledge", "notify_complete", "commit")
PASSED = [
    (actor, f"{call}.{side}") for actor in ("source[0]", "sink[0]") for call in CALLS for side in ("before", "after")
]
INSIDE = [("sink[0]", "file.rename"), ("coordinator", "checkpoint.notify"), ("sink[0]", "end_of_input.before")]


def test_hosts_fail_once_at_each_step_and_mostly_under_a_sink() -> None:
    steps = steps_of_hosts([*PASSED, *INSIDE, ("source[1]", "late.before")])
    assert len(steps) == len({point for _, point in steps}) == 2 * len(CALLS) + 1
    assert {"sink[0]", "source[1]"} == {actor for actor, _ in steps}


def test_there_are_as_many_cuts_and_dead_hosts_as_a_certificate_needs() -> None:
    for calls in (1, 2 * len(CALLS)):
        plan = on_hosts(StepsOfHosts(steps_of_hosts(PASSED)[-calls:]))
        assert CUTS_LEAST <= sum(plan.of_hosts[kind] for kind in CUTS)
        assert DEAD_LEAST <= plan.of_hosts[KILL_HOST]
        assert plan.rows >= 10_000
        assert set(SENTENCES) == {kind for kind, _ in plan.kinds}
    without = on_hosts(StepsOfHosts(steps_of_hosts(PASSED)), kinds=[kind for kind in SENTENCES if kind != SLOW_LINK])
    assert SLOW_LINK not in without.of_hosts


def test_each_kind_strikes_at_each_of_its_steps_even_if_some_are_not_passed_in_time() -> None:
    steps = StepsOfHosts(steps_of_hosts(PASSED))
    plan = on_hosts(steps)
    struck, missed = Counter[tuple[str, str]](), set[str]()
    for kind, times in plan.of_hosts.items():
        while sum(found for (of, _), found in struck.items() if of == kind) < times:
            actor, point = steps.next(kind)
            if point == "commit.after" and kind not in missed:  # the first time it is not passed
                missed.add(kind)
                continue
            steps.note(Fault(actor, point, 1, kind))
            struck[kind, point] += 1
    assert [] == steps.left_out([kind for kind in SENTENCES if kind != HEAL])
    assert {CUT, KILL_HOST} == {kind for kind, point in struck if point == "write.before"}
    assert 1 == struck[CUT_ALL, "commit.after"]
    assert ["cut commit.after"] == StepsOfHosts([("sink[0]", "commit.after")]).left_out([CUT])


@pytest.mark.parametrize(
    ("cuts", "dead", "finished", "doubts"), [(50, 20, True, 0), (49, 20, True, 1), (50, 19, True, 1), (0, 0, False, 0)]
)
def test_too_few_cuts_or_dead_hosts_leave_a_doubt(cuts: int, dead: int, finished: bool, doubts: int) -> None:
    result = RunResult(
        schedule=Schedule(),
        struck=(),
        anomalies=(),
        trace=(),
        names=(),
        history=(),
        finished=finished,
        failure="",
        rows_committed=10_000,
        log=b"",
    )
    kinds = {CUT: cuts - cuts // 2, CUT_ALL: cuts // 2, KILL_HOST: dead}
    found = too_few(EnduranceOutcome(run_result=result, summary="", kinds=kinds))
    assert doubts == len(found)
    assert all(f"{cuts} hosts were cut off and {dead} seen to die" in why for why in found)


class Still:
    """In place of an Execution: its job passes no step."""

    over, why, recent, polls = False, "", ("nothing",), 0

    def poll(self) -> list[Happening]:
        self.polls += 1
        return []


def still_job(tmp_path: Path, progress: Progress) -> EnduranceJob:
    runner: Any = SimpleNamespace(scratch=Scratch(name="still", path=tmp_path, shell="spark"))
    job = EnduranceJob(runner, ON_HOSTS, steps=PASSED, progress=progress)
    job.folder = RunFolder(tmp_path / "run")
    job.armed = job.folder.armed()
    return job


class Heard(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, what: str, kills: int, *, schedules: int = 1) -> None:
        self.lines.append(what)


@pytest.mark.parametrize("kind", ["kill", CUT])
def test_a_job_that_passes_no_step_fails_and_is_reported_meanwhile(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short the time is that each step is armed."""
    monkeypatch.setattr(spark_endurance, "STRIKE_SECONDS", 0.05)
    monkeypatch.setattr(spark_endurance, "REPORT_SECONDS", 0.0)
    heard, still = Heard(), Still()
    execution: Any = still
    job = still_job(tmp_path, heard)
    job.plan = replace(job.plan, strike_seconds=0.002)
    with pytest.raises(SparkFailed, match="no step was passed"):
        job._strike(execution, kind, "attempt")
    assert still.polls == len(heard.lines)
