"""Calls that fail as often as a sink tries them: what it does when it gives up is no matter of a single error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import STANDARD, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import evenly, passes
from sinkproof.generators.requests_sent import requests
from sinkproof.generators.single_faults import errors
from sinkproof.subject.static_analysis.names_in_code import HTTP, has_name, tries_again
from sinkproof.workload.job_names import LONG_WAITS_JOB

TRIES_MOST: Final = 12
SECONDS_MOST: Final = 4.0  # of one run: libraries that are no Python wait before they try again, longer each time
REFUSED_AGAIN: Final = ("unavailable", "throttled")
REFUSED_MOST: Final = 3  # requests, for each way to refuse them


def repeated_errors(campaign: CampaignView) -> Iterator[Schedule]:
    """Each error, and one more each time that its attempt comes to that point again before the call is over. Only
    where traces are in the order of time. With several errors sleep is short, and so is the wait before each try; but
    a job that does not recover then is excused, so that it is run as usual, too.
    """
    for fault in _first_errors(campaign) if tries_again(campaign.runner.files) else ():
        faults: list[Fault] = []
        again: Fault | None = fault
        job = STANDARD
        while again is not None and len(faults) < TRIES_MOST:
            faults.append(again)
            began = now()
            run = campaign.run(Schedule(tuple(faults), job=job))
            if not run.finished:
                yield Schedule(tuple(faults))
            again, job = _tried_again(run, again) if now() - began < SECONDS_MOST else None, LONG_WAITS_JOB
        if faults[1:]:
            yield Schedule(tuple(faults), job=job)


def _first_errors(campaign: CampaignView) -> Iterator[Fault]:
    """Calls that fail; and some requests that a service refuses, to each of which it may give the same answer again."""
    yield from (schedule.faults[0] for schedule in errors(campaign))
    for kind in REFUSED_AGAIN if has_name(campaign.runner.files, *HTTP) else ():
        yield from evenly(
            [fault for fault in requests(campaign.baseline, kind) if campaign.can_inject(fault)], REFUSED_MOST
        )


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
