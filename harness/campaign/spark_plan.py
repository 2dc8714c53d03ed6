"""The stages of a campaign in the Spark shell. Faults at executed lines are left to the other shells, except
for a user's sink. With an external system the budget may not suffice for all stages, so the
endurance job comes first there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from sinkproof.campaign.loop import Campaign
from sinkproof.campaign.process_plan import KILLS_AND_MESSAGES
from sinkproof.campaign.spark_campaign import SparkCampaign
from sinkproof.campaign.stage import Need, Plan, Stage
from sinkproof.chaos.schedule import Schedule
from sinkproof.generators import host_schedules, single_faults

WORKERS_KILLED_AT: Final = ("write.after", "snapshot.after", "notify_complete.before", "commit.after", "open.after")
JOBS_KILLED_AT: Final = ("notify_complete.before", "checkpoint.persist.before", "snapshot.after")


def kills_at_lines(campaign: Campaign) -> Iterator[Schedule]:
    yield from single_faults.first_time_at_lines(campaign, kind="kill")


SPARK_PLAN: Final[Plan] = (
    Stage(name="faults of hosts", schedules=host_schedules.each_kind, needs=(Need.HOSTS,), required=True),
    Stage(
        name="endurance job on hosts that fail",
        explore=SparkCampaign.run_endurance_job_on_hosts,
        needs=(Need.HOSTS, Need.ENDURANCE),
        required=True,
    ),
    Stage(
        name="endurance job with a service",
        explore=SparkCampaign.run_endurance_job,
        needs=(Need.SERVICE, Need.ENDURANCE),
    ),
    *KILLS_AND_MESSAGES,
    Stage(name="kill at steps of recoveries", explore=SparkCampaign.strike_unstruck_points),
    Stage(
        name="kill of the Spark worker",
        schedules=partial(single_faults.first_time, kind="kill-worker", points=WORKERS_KILLED_AT),
    ),
    Stage(name="kill at each line", schedules=kills_at_lines, needs=(Need.NO_NAMED_POINTS,)),
    Stage(
        name="kill, pause and zombie at lines",
        explore=SparkCampaign.strike_lines_of_recoveries,
        needs=(Need.FOREIGN_CODE, Need.NO_NAMED_POINTS),
    ),
    Stage(
        name="endurance job",
        explore=SparkCampaign.run_endurance_job,
        needs=(Need.NO_SERVICE, Need.ENDURANCE),
    ),
    Stage(
        name="kill of driver, JVM and workers",
        schedules=partial(single_faults.first_time, kind="kill-job", points=JOBS_KILLED_AT),
    ),
    Stage(
        name="other parallelism after whole-job kills",
        schedules=single_faults.rescales,
        needs=(Need.RESCALES,),
    ),
    Stage(
        name="zombies, errors and whole-job kills at each step",
        schedules=single_faults.zombies_errors_and_job_kills,
    ),
    Stage(name="faults of hosts at each step", schedules=host_schedules.at_each_step, needs=(Need.HOSTS,)),
)
