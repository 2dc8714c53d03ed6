"""The stage in which the external system is killed before each outward call of its commits and of its restarts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from sinkproof.campaign.inside_service.inside_coverage import InsideCoverage, chained, in_chains
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import StageCoverage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.chaos.services.watched_service import WatchedService
from sinkproof.chaos.system_calls.watched_program import NotWatched
from sinkproof.execution.process_runner import ProcessRunner
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.watchable_service import NotBack

TIMES: Final = 3  # a run that does not meet the call at its place is void, and is made again
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
        struck = [_struck(campaign, each) for each in coverage.first_kills()]
        coverage.add_restarts([result for result in struck if result is not None])
        for chain in in_chains(coverage.first_restart_kills()):
            _struck_together(campaign, chain)
        for ways in coverage.other_ways():
            _struck_on_one(campaign, ways)
        further = [*([each] for each in coverage.further_kills()), *in_chains(coverage.further_restart_kills())]
        while further and not deadline.over:
            _struck_together(campaign, further.pop(0))
        if left := sum(map(len, further)):
            campaign.stage.cut = f"{left} repeated calls are left: {SECONDS_MOST / 60:.0f} minutes are over"


@contextmanager
def _watched(runner: ProcessRunner, coverage: InsideCoverage) -> Iterator[WatchedService | None]:
    try:
        service = runner.service.watch()
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
        runner.service.leave()


def _run(campaign: InsideCampaign, schedule: Schedule) -> RunResult | NotBack:
    """In the latter case the service goes on with the data of before the first kill."""
    try:
        return campaign.run(schedule)
    except NotBack as why:
        watched = campaign.runner.service.watched
        assert watched is not None
        watched.renew()
        return why


def _struck(campaign: InsideCampaign, schedule: Schedule) -> RunResult | None:
    """Once, and again where it was void. None: it did not start again."""
    coverage = campaign.results.coverage.inside
    for times_left in reversed(range(TIMES)):
        result = _run(campaign, schedule)
        if isinstance(result, NotBack):
            coverage.not_back[schedule] = result.sentence
            break
        if coverage.add(result) or not times_left:
            return result
    return None


def _struck_on_one(campaign: InsideCampaign, ways: Sequence[Schedule]) -> None:
    for way in ways:
        result = _struck(campaign, way)
        if result is None or result.fired:
            break


def _struck_together(campaign: InsideCampaign, kills: Sequence[Schedule]) -> None:
    """In one run, which costs a whole start of the service once; what it does not meet in further ones, as some calls
    are made by every third restart only. Each alone if such a run finds anything, or if the service does not survive
    so many deaths.
    """
    left, coverage, times_left = list(kills), campaign.results.coverage.inside, TIMES
    while len(left) > 1 and times_left:
        result = _run(campaign, chained(left))
        if isinstance(result, NotBack):
            break
        not_met = coverage.add_chain(left, result)
        if result.anomalies:
            break
        times_left = times_left - 1 if not_met == left else TIMES
        left = not_met
    for each in left:
        _struck(campaign, each)
