"""Calls that fail as often as a sink tries them: what it does when it gives up is no matter of a single error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import passes
from sinkproof.generators.single_faults import errors
from sinkproof.subject.names_in_code import tries_again

TRIES_MOST: Final = 12
SECONDS_MOST: Final = 4.0  # of one run: sinks wait before they try again, longer each time


def repeated_errors(campaign: CampaignView) -> Iterator[Schedule]:
    """Each error, and one more each time that its attempt comes to that point again before the call is over. Only
    where traces are in the order of time.
    """
    for schedule in errors(campaign) if tries_again(campaign.runner.files) else ():
        (first,) = schedule.faults
        faults: list[Fault] = []
        again: Fault | None = first
        while again is not None and len(faults) < TRIES_MOST:
            faults.append(again)
            began = now()
            run = campaign.run(Schedule(tuple(faults)))
            again = _tried_again(run, again) if now() - began < SECONDS_MOST else None
        if faults[1:]:
            yield Schedule(tuple(faults))


def _tried_again(run: RunResult, failed: Fault) -> Fault | None:
    has_failed = False
    for actor, point, occurrence in passes(run):
        if actor != failed.actor:
            continue
        if not has_failed:
            has_failed = (point, occurrence) == (failed.point, failed.occurrence)
        elif point == failed.point:
            return Fault(actor, point, occurrence, failed.kind)
        elif point.endswith((".after", "open.before")):
            return None
    return None
