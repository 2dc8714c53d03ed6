"""What a sink of a user meets beside an external system, where a run takes a second: some of each rare situation.

Without a service whole stages hold these situations. There each schedule runs; here those that differ most do.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from sinkproof.chaos.schedule import Schedule
from sinkproof.generators import high_yield, interleavings, single_faults
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import evenly, in_turn
from sinkproof.workload.job_names import EMPTY_BATCHES_JOB, MANY_KEYS_JOB, PLAIN_JOBS, REFUSABLE_ROWS

# The lines of a commit at which a zombie stops are chosen evenly: whether it is fenced is the same at most of them.
ZOMBIES_MOST: Final = 16
OTHERS_MOST: Final = 40  # that generator takes its situations in turn: so many schedules have two or three of each


def rare_situations(campaign: CampaignView) -> Iterator[Schedule]:
    """In turn, so that what convicts comes early."""
    removed = list(interleavings.zombies_of_removed_subtasks(campaign))
    gone = single_faults.zombies_without_successor(campaign) if campaign.rescaled_jobs else ()
    first = {schedule.faults[0].point: schedule for schedule in reversed(list(gone))}
    yield from in_turn(
        (
            evenly(removed, ZOMBIES_MOST),
            first.values(),
            (Schedule(job=job) for job in (*PLAIN_JOBS, EMPTY_BATCHES_JOB, MANY_KEYS_JOB, *REFUSABLE_ROWS)),
            high_yield.exact_sizes(campaign),
            single_faults.errors_in_reused_processes(campaign),
            high_yield.longer_generations(campaign),
            high_yield.many_pending_checkpoints(campaign),
            high_yield.twelve_sinks(campaign),
            single_faults.very_late_zombies_at_first_steps(campaign),
            islice(high_yield.whole_job_kills_in_other_jobs(campaign), OTHERS_MOST),
        )
    )
