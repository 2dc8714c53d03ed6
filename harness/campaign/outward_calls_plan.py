"""The parts of the process shell's plan that strike at outward calls: system calls of programs and of native code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sinkproof.campaign.inside_service.inside_campaign import kill_inside_service
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.stage import Need, Plan, Stage
from sinkproof.chaos.points import call_of
from sinkproof.chaos.schedule import Schedule
from sinkproof.generators import high_yield, native_calls, single_faults
from sinkproof.generators.fault_sites import evenly, first_of_each
from sinkproof.generators.zombies_and_deaths import zombies_with_one_session
from sinkproof.workload.job_names import LARGE_BATCHES_JOB

KINDS_AT_NEW_CALLS: Final = ("kill", "stop", "error")
NEW_CALLS_MOST: Final = 12  # of one job
WATCHED_SINK: Final = (Need.PYTHON, Need.NO_SERVICE, Need.FOREIGN_CODE)  # a user's, of which system calls are watched


def requests_without_reply(campaign: ProcessCampaign) -> list[Schedule]:
    if not campaign.unanswered_for_long:
        campaign.stage.skipped = "no request is known that code with a time limit sends"
    return campaign.unanswered_for_long


def end_unused_sessions(campaign: ProcessCampaign) -> Iterator[Schedule]:
    if not campaign.results.coverage.outward.peers:
        campaign.stage.skipped = "it connects to no server"
        return iter(())
    return zombies_with_one_session(campaign)


def exceed_room_for_subtasks(campaign: ProcessCampaign) -> Iterator[Schedule]:
    if campaign.results.coverage.outward.peers:
        campaign.stage.skipped = "a hundred attempts are too many connections for some servers"
        return iter(())
    return high_yield.more_subtasks_than_numbers_have_room_for(campaign)


def lose_power_after_failed_forcing(campaign: ProcessCampaign) -> None:
    """Where a command goes on after a call that forces a file or a folder to disk has failed."""
    calls = first_of_each(campaign.baseline, "error", lines=True)
    for fault in [fault for fault in calls if call_of(fault.point) in native_calls.FORCING]:
        failed = campaign.run(Schedule((fault,)))
        campaign.stop_if_asked()
        if failed.fired and not failed.restarts:
            campaign.run_schedules(native_calls.losses_after_failed_forcing(failed))


def strike_calls_of_unusual_rows(campaign: ProcessCampaign) -> None:
    """Where only rows that are unusual in some way lead, such as a value that is too long for its place: a run of each
    such job shows the calls.
    """
    usual = campaign.run_watched()
    campaign.stage.cut = campaign.why_not_watched(usual)
    if campaign.stage.cut:
        return
    for schedule in high_yield.without_faults(campaign):
        if schedule.job != LARGE_BATCHES_JOB:  # its calls have a stage of their own
            unusual = campaign.run_watched(schedule=schedule)
            new = native_calls.after_new_calls(unusual, usual, kinds=KINDS_AT_NEW_CALLS)
            campaign.run_schedules(evenly(new, NEW_CALLS_MOST))


OUTWARD_CALLS: Final[Plan] = (
    Stage(
        name="kill before each outward call",
        explore=ProcessCampaign.kill_before_outward_calls,
        needs=(Need.OUTWARD_CALLS,),
        required=True,
        whole=True,
    ),
    Stage(
        name="zombie, pause, error and late effect at each outward call",
        schedules=single_faults.at_outward_calls,
        needs=(Need.OUTWARD_CALLS,),
        required=True,
        whole=True,
    ),
    Stage(
        name="kill before each outward call of recoveries",
        explore=ProcessCampaign.kill_before_outward_calls_of_recoveries,
        needs=(Need.OUTWARD_CALLS,),
        required=True,
        whole=True,
    ),
    Stage(
        name="power losses after a file could not be forced to disk",
        explore=lose_power_after_failed_forcing,
        needs=(Need.OUTWARD_CALLS, Need.WATCHED_POWER),
        required=True,
    ),
)
INSIDE_SERVICE: Final[Plan] = (
    Stage(
        name="kill the external system before each outward call of its own",
        explore=kill_inside_service,
        needs=(Need.SERVICE, Need.INSIDE_SERVICE),
    ),
)
NATIVE_CODE: Final[Plan] = (
    Stage(
        name="outward calls that no line explains",
        explore=ProcessCampaign.look_for_native_calls,
        needs=WATCHED_SINK,
        required=True,
        whole=True,
    ),
    Stage(
        name="kill before outward calls of native code",
        explore=ProcessCampaign.kill_in_native_code,
        needs=(Need.NATIVE_CALLS,),
        required=True,
        whole=True,
    ),
    Stage(
        name="errors at outward calls that no known call to the target has made",
        explore=ProcessCampaign.fail_unknown_calls,
        needs=WATCHED_SINK,
        required=True,
    ),
    Stage(
        name="refused statements, short writes, deaths of programs, late effect of each outward call of a commit",
        schedules=lambda campaign: campaign.late_calls,
        needs=WATCHED_SINK,
        required=True,
    ),
    Stage(
        name="more subtasks than a number in the code has room for",
        schedules=exceed_room_for_subtasks,
        needs=WATCHED_SINK,
        required=True,
    ),
    Stage(name="requests without reply", schedules=requests_without_reply, needs=WATCHED_SINK),
    Stage(
        name="zombies of which servers end the sessions that they do not use",
        schedules=end_unused_sessions,
        needs=WATCHED_SINK,
        required=True,
    ),
    Stage(
        name="kill, pause and zombie between outward calls of large batches, kill between those of recoveries",
        explore=ProcessCampaign.strike_new_calls,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
        required=True,
    ),
    Stage(
        name="kill, zombie and error between outward calls that only unusual rows lead to",
        explore=strike_calls_of_unusual_rows,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
        required=True,
    ),
)
NATIVE_CODE_OTHERWISE: Final[Plan] = (
    Stage(
        name="kill before each outward call of native code",
        explore=ProcessCampaign.kill_before_outward_calls,
        needs=(Need.NATIVE_CALLS,),
    ),
    Stage(
        name="zombie, pause, error and late effect at outward calls of native code",
        explore=ProcessCampaign.strike_native_code_otherwise,
        needs=(Need.NATIVE_CALLS,),
    ),
)
