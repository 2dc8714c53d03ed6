"""The stage in which the external system is killed before each outward call of its commits and of its restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from sinkproof.campaign.inside_service.inside_coverage import InsideCoverage
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import StageCoverage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.chaos.services.watched_service import WatchedService
from sinkproof.chaos.system_calls.watched_program import NotWatched
from sinkproof.execution.process_runner import ProcessRunner
from sinkproof.execution.run_result import RunResult

TIMES: Final = 3  # a run that does not meet the call at its place is void, and made again
SECONDS_MOST: Final = 840.0  # a broker needs seconds for each restart
RECORDED: Final = (
    Schedule(),
    Schedule((Fault(COORDINATOR, "checkpoint.persist.before", 2, "kill-job"),)),  # its transactions are aborted
    Schedule((Fault(COORDINATOR, "checkpoint.persist.after", 2, "kill-job"),)),  # they are committed by a recovery
)


class InsideCampaign(Protocol):
    """What the stage needs of the campaign."""

    runner: ProcessRunner
    results: CampaignResults
    stage: StageCoverage

    def run(self, schedule: Schedule) -> RunResult: ...


def kill_inside_service(campaign: InsideCampaign) -> None:
    """Each different call; then, as far as there is time, those that are repeated."""
    coverage, deadline = campaign.results.coverage.inside, Deadline(SECONDS_MOST)
    with _watched(campaign.runner, coverage) as service:
        if service is None:
            return
        recordings = [campaign.run(schedule) for schedule in RECORDED]
        coverage.background = service.background()
        for recording in recordings:
            coverage.add_recording(recording)
        coverage.add_restarts([_struck(campaign, each) for each in coverage.first_kills()])
        for each in coverage.first_restart_kills():
            _struck(campaign, each)
        further = coverage.further_kills()
        for left, each in zip(range(len(further), 0, -1), further, strict=True):
            if deadline.over:
                campaign.stage.cut = f"{left} repeated calls are left: {SECONDS_MOST / 60:.0f} minutes are over"
                break
            _struck(campaign, each)


@contextmanager
def _watched(runner: ProcessRunner, coverage: InsideCoverage) -> Iterator[WatchedService | None]:
    try:
        service = runner.watch_service()
    except NotWatched as error:
        coverage.unwatched = str(error)
        yield None
        return
    coverage.service = service.title
    coverage.settings = [f"{name}: {value}" for name, value in service.service.settings.items()]
    try:
        yield service
    finally:
        coverage.unseen = service.all_unseen()
        runner.leave_service()


def _struck(campaign: InsideCampaign, schedule: Schedule) -> RunResult:
    """Once, and again where it was void."""
    for _ in range(TIMES):
        result = campaign.run(schedule)
        campaign.results.coverage.inside.add(result)
        if result.fired:
            break
    return result
