"""Second laboratories in the simulated shell: what is found and counted does not depend on how many there are."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign import simulated_workers as lanes_simulated
from sinkproof.campaign.exhaustive import Thousands
from sinkproof.campaign.results import Tally
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_workers import briefly, lanes_beside
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import Laboratory, Trial
from sinkproof.exploration.fault_pairs import AT_STEPS
from sinkproof.generators.fault_sites import places
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError, load
from sinkproof.subject.scratch import Scratch, fresh_folder

BACKUPS = f"{Path(__file__).parents[2].joinpath('support/explored_sinks.py')}:OneBackupContract"


@contextmanager
def laboratory_of(locator: str) -> Iterator[Laboratory]:
    folder = fresh_folder()
    with Laboratory(load(locator), Scratch(name="first", path=folder)) as made:
        yield made
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def few(monkeypatch: Any) -> None:
    monkeypatch.setattr(lanes_simulated, "WORTH", 10)


def found_by_pairs(locator: str, *, cores: int, most: int) -> Tally:
    with laboratory_of(locator) as laboratory, lanes_beside(laboratory, cores, hang_seconds=10) as lanes:
        tally = Tally(contract=laboratory.contract, shell="simulated")
        campaign = SimulatedCampaign(laboratory, tally, enough=lambda tally: tally.runs >= most, lanes=lanes)
        baseline = campaign._baseline()
        assert baseline is not None
        enough, tracer = campaign.enough, campaign.tracer
        Thousands(laboratory, tally, tracer=tracer, lanes=lanes, enough=enough).pairs(baseline, may=lambda fault: True)
        assert cores - 1 == len(lanes.lanes)
    return tally


@pytest.mark.slow
def test_pairs_show_the_same_on_one_core_and_on_three() -> None:
    alone, helped = (found_by_pairs(BACKUPS, cores=cores, most=2500) for cores in (1, 3))
    assert alone.findings
    assert alone.findings == helped.findings
    assert AT_STEPS.told in alone.notes[-1], "the telling ones come first"
    assert (alone.cells, alone.struck, alone.finding_count) == (helped.cells, helped.struck, helped.finding_count)
    assert (alone.rows_committed, alone.notes, alone.in_bound) == (helped.rows_committed, helped.notes, helped.in_bound)


def schedules_of(laboratory: Laboratory) -> list[Schedule]:
    return [Schedule((fault,)) for fault in places(laboratory.run(Schedule()), "kill")][:60]


@pytest.mark.slow
def test_lines_are_told_as_if_they_had_been_passed_here() -> None:
    with laboratory_of("memory/masked") as laboratory, lanes_beside(laboratory, 2, hang_seconds=10) as lanes:
        tracer = lanes_simulated.tracer_of(laboratory)
        schedules, own = 3 * schedules_of(laboratory), list[Schedule]()

        def run(schedule: Schedule) -> Trial:
            own.append(schedule)
            return laboratory.run(schedule, tracing=tracer)

        trials = list(lanes.trials(schedules, traced=True, run=run))
        assert 0 < len(own) < len(schedules)
        assert [(run(schedule).trace, schedule) for schedule in schedules] == [
            (trial.trace, trial.schedule) for trial in trials
        ]


@pytest.mark.slow
def test_one_that_dies_makes_no_verdict_and_says_what_it_was_trying() -> None:
    with laboratory_of("memory/masked") as laboratory, lanes_beside(laboratory, 2, hang_seconds=10) as lanes:
        killed = list[int]()

        def run(schedule: Schedule) -> Trial:
            (lane,) = lanes.lanes
            if str(lane.doing) != "starting" and not killed:
                os.kill(lane.child.pid, signal.SIGKILL)
                killed.append(lane.child.pid)
            return laboratory.run(schedule)

        schedules = 20 * schedules_of(laboratory)
        with pytest.raises(ReaderFailed, match=r"a second laboratory is gone: ended while trying \w+"):
            list(lanes.trials(schedules, traced=False, run=run))
        assert killed


@pytest.mark.slow
def test_what_cannot_be_made_there_is_told_here() -> None:
    with laboratory_of("memory/masked") as laboratory:
        schedules = 20 * schedules_of(laboratory)  # it is made while the first ones are run
        laboratory.contract.locator = "memory/never"
        with (
            lanes_beside(laboratory, 2, hang_seconds=10) as lanes,
            pytest.raises(ContractError, match="unknown subject"),
        ):
            list(lanes.trials(schedules, traced=False, run=laboratory.run))


@pytest.mark.parametrize("cores", [1, 2])
def test_who_is_alone_or_has_little_to_do_starts_nobody(cores: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(lanes_simulated, "WORTH", 10 if cores == 1 else 100)
    with laboratory_of("memory/masked") as laboratory, lanes_beside(laboratory, cores, hang_seconds=10) as lanes:
        schedules = schedules_of(laboratory)
        assert schedules == [trial.schedule for trial in lanes.trials(schedules, traced=False, run=laboratory.run)]
        assert [] == lanes.lanes


def test_a_run_that_is_told_briefly_keeps_what_is_counted() -> None:
    with laboratory_of("memory/masked") as laboratory:
        trial = laboratory.run(schedules_of(laboratory)[5])
        brief = briefly(trial)
        assert ([], []) == (brief.trace, brief.history)
        assert (trial.struck, trial.rows_committed, trial.anomalies) == (
            *(brief.struck, brief.rows_committed, brief.anomalies),
        )
