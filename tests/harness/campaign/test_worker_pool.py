"""Several laboratories at once: who runs a schedule is no matter, and trials are told in the order of schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sinkproof.campaign.process_workers import ENTRY, lanes_beside
from sinkproof.campaign.worker_pool import Lane, Lanes, start_lane
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import PRELOAD, ProcessLaboratory, process_laboratory
from sinkproof.execution.schedule_runner import Trial
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.subject.contract import ContractError, load
from sinkproof.subject.scratch import Scratch, fresh_folder

SUBJECT = "files/two-phase"
SCHEDULES = [
    parse(f"sink[{subtask}].{point}#1=kill") for subtask in (0, 1) for point in ("write.after", "commit.before")
]


@pytest.fixture
def laboratory() -> Iterator[ProcessLaboratory]:
    folder = fresh_folder()
    with process_laboratory(load(SUBJECT), Scratch(name="first", path=folder, shell="process")) as made:
        yield made
    made.reset()
    folder.rmdir()


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=(*PRELOAD, "sinkproof.campaign.process_workers")) as made:
        yield made


@pytest.fixture
def lane_for(server: ForkServer) -> Iterator[Callable[[str], Lane]]:
    """Makes a second laboratory for a subject."""
    with ExitStack() as stack:

        def make(subject: str) -> Lane:
            return start_lane(server, stack, ENTRY, (subject, "second", 10.0), seconds=120.0)

        yield make


@pytest.mark.slow
def test_a_second_laboratory_tells_what_the_first_one_would(
    laboratory: ProcessLaboratory, lane_for: Callable[[str], Lane]
) -> None:
    own: list[Schedule] = []

    def run(schedule: Schedule) -> Trial:
        own.append(schedule)
        return laboratory.run(schedule)

    trials = list(Lanes([lane_for(SUBJECT)]).trials(SCHEDULES, traced=False, run=run))
    assert SCHEDULES == [trial.schedule for trial in trials]
    assert 0 < len(own) < len(SCHEDULES)
    for trial in trials:
        assert (True, True, (), 1) == (trial.finished, trial.fired, trial.anomalies, trial.kills)


@pytest.mark.slow
def test_executed_lines_are_recorded_there_too(laboratory: ProcessLaboratory, lane_for: Callable[[str], Lane]) -> None:
    lanes = Lanes([lane_for(SUBJECT)])
    traced = list(lanes.trials([Schedule(), Schedule(job="sparse")], traced=True, run=laboratory.run))
    assert any(point.startswith("line(two_phase.py") for _, point in traced[0].trace)


def test_what_fails_there_is_told_as_if_it_had_failed_here(
    laboratory: ProcessLaboratory, lane_for: Callable[[str], Lane]
) -> None:
    with pytest.raises(ContractError, match="unknown subject"):
        list(Lanes([lane_for("files/never")]).trials(SCHEDULES, traced=False, run=laboratory.run))


def test_one_that_dies_makes_no_verdict(laboratory: ProcessLaboratory, lane_for: Callable[[str], Lane]) -> None:
    lane = lane_for(SUBJECT)
    lane.child.kill()
    with pytest.raises(ReaderFailed, match="a second laboratory is gone"):
        list(Lanes([lane]).trials(SCHEDULES, traced=False, run=laboratory.run))


def test_who_uses_no_external_system_has_no_second_laboratory(laboratory: ProcessLaboratory) -> None:
    """Files are quick: there is nothing to wait for."""
    with lanes_beside(laboratory, 2) as lanes:
        assert () == lanes.lanes
