"""Deaths of attempts that have started programs: a kill of the process alone, which leaves these to end by themselves.

Elsewhere they die with the attempt, as in a container. What reads from a pipe takes its end for the end of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from sinkproof.chaos.schedule import Schedule
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import first_of_each
from sinkproof.generators.interleavings import within
from sinkproof.subject.names_in_code import has_name
from sinkproof.workload.job_names import ORPHANS_JOB

START_PROGRAMS: Final = (
    *("subprocess", "Popen", "popen", "system", "create_subprocess_exec", "create_subprocess_shell"),
    *("fork", "posix_spawn", "posix_spawnp", "multiprocessing", "ProcessPoolExecutor"),
)


def deaths_beside_programs(campaign: CampaignView) -> Iterator[Schedule]:
    """At each line, and in commits also the last time that a line is executed."""
    if has_name(campaign.runner.files, *START_PROGRAMS):
        traced = campaign.traced_baseline
        commits = within(traced, "notify_complete", "kill", last=True)
        faults = dict.fromkeys(chain(commits, first_of_each(traced, "kill", lines=True)))
        yield from (Schedule((fault,), job=ORPHANS_JOB) for fault in faults)
