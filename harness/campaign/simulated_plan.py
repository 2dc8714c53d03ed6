"""The stages of a campaign in the simulated shell, cheap and high-yield ones first.

The verdict rests on everything up to the single faults at executed lines; partial deaths between whole-job crashes and
ordered pairs of faults go as far as the budget does.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.stage import Need, Plan, Stage
from sinkproof.chaos.faults import REGISTERED_KINDS
from sinkproof.generators import high_yield, interleavings, rare, single_faults

CRASHABLE: Final = (Need.CRASHABLE_HERE,)
COPIED: Final = (Need.CRASHABLE_HERE, Need.COPIES)
at_every_step = single_faults.at_every_step

FIRST: Final[Plan] = (
    Stage(
        name="recovery from each checkpoint alone",
        explore=SimulatedCampaign.recover_from_each_checkpoint,
        needs=CRASHABLE,
    ),
    Stage(
        name="one coordinator death in each job",
        schedules=partial(high_yield.one_crash_in_each_job, kind="kill"),
        needs=CRASHABLE,
    ),
    Stage(
        name="whole-job crash at each step and line",
        explore=SimulatedCampaign.crash_at_each_line,
        needs=CRASHABLE,
    ),
)
SINGLE_FAULTS: Final[Plan] = (
    Stage(name="declined vote at each step", schedules=partial(at_every_step, kind="decline")),
    Stage(name="lost notification at each step", schedules=partial(at_every_step, kind="lose")),
    Stage(name="kill at each step", schedules=partial(at_every_step, kind="kill")),
    Stage(name="zombie from each step", schedules=partial(at_every_step, kind="stop")),
    Stage(name="pause at each step", schedules=partial(at_every_step, kind="pause")),
    Stage(name="error at each step", schedules=partial(at_every_step, kind="error")),
    Stage(name="late zombies", schedules=single_faults.late_zombies_at_every_step),
    Stage(name="very late zombies", schedules=single_faults.very_late_zombies),
    Stage(name="generations with one digit more", schedules=high_yield.longer_generations),
    Stage(name="faults after a declined vote", schedules=single_faults.faults_after_decline),
)
RARE_FAULTS: Final[Plan] = (
    Stage(name="concurrent reader", explore=SimulatedCampaign.read_concurrently, needs=CRASHABLE),
    Stage(
        name="whole-job crash after message faults",
        explore=SimulatedCampaign.crash_after_message_faults,
        needs=(Need.CRASHABLE_HERE, Need.NO_COPIES),
    ),
    Stage(name="late and repeated messages", schedules=rare.late_and_repeated_messages, needs=CRASHABLE),
    Stage(name="many lost messages", schedules=rare.many_lost_messages, needs=CRASHABLE),
    Stage(name="deaths without notifications", schedules=rare.deaths_without_notifications, needs=CRASHABLE),
    Stage(name="deaths in other jobs", schedules=rare.deaths_in_plain_jobs, needs=CRASHABLE),
    Stage(name="time limits and maintenance", schedules=rare.expiry_and_maintenance, needs=CRASHABLE),
    Stage(name="power losses", schedules=rare.power_losses, needs=CRASHABLE),
    Stage(
        name="faults in jobs of a simulated engine", explore=SimulatedCampaign.crash_in_virtual_jobs, needs=CRASHABLE
    ),
    Stage(name="split brain, older checkpoints, lost state", schedules=rare.engine_faults, needs=CRASHABLE),
    Stage(
        name="late writes and repeated errors",
        schedules=rare.late_writes_and_repeated_errors,
        needs=CRASHABLE,
    ),
)
CLOSURES: Final[Plan] = (
    Stage(
        name="power losses after deaths within commits",
        schedules=interleavings.power_losses_after_deaths_within_commits,
        needs=(*COPIED, Need.POWER_LOSS),
        lines=True,
    ),
    Stage(
        name="other parallelism after whole-job crashes",
        explore=SimulatedCampaign.crash_and_rescale,
        needs=(Need.CRASHABLE_HERE, Need.RESCALES),
    ),
    Stage(
        name="whole-job crash after steps of recoveries",
        explore=SimulatedCampaign.crash_after_unstruck_points,
        needs=CRASHABLE,
    ),
    Stage(
        name="whole-job crash in idle gaps",
        explore=SimulatedCampaign.crash_in_idle_gaps,
        needs=(Need.CRASHABLE_HERE, Need.NO_COPIES),
    ),
    Stage(
        name="crash at lines of large batches, once",
        explore=SimulatedCampaign.crash_bulk_at_lines,
        needs=(Need.CRASHABLE_HERE, Need.NO_COPIES),
    ),
    Stage(name="closure of whole-job crashes", explore=SimulatedCampaign.close_whole_job, needs=CRASHABLE),
    Stage(name="closure in idle gaps", explore=SimulatedCampaign.close_idle_gaps, needs=CRASHABLE),
    Stage(name="closure at executed lines", explore=SimulatedCampaign.close_lines, needs=CRASHABLE),
    Stage(name="crash at lines of large batches", explore=SimulatedCampaign.crash_bulk_at_lines, needs=COPIED),
)
THOUSANDS: Final[Plan] = (
    Stage(name="kill, zombie and pause at lines", explore=SimulatedCampaign.strike_at_lines, needs=COPIED),
    Stage(name="closure with partial deaths", explore=SimulatedCampaign.close_with_partial_deaths, needs=COPIED),
    Stage(name="ordered pairs of faults", explore=SimulatedCampaign.run_pairs, needs=COPIED),
)
REGISTERED_FAULTS: Final[Plan] = (
    (Stage(name="faults of other packages", schedules=single_faults.registered_faults),) if REGISTERED_KINDS else ()
)
SIMULATED_PLAN: Final[Plan] = (*FIRST, *SINGLE_FAULTS, *REGISTERED_FAULTS, *RARE_FAULTS, *CLOSURES, *THOUSANDS)
