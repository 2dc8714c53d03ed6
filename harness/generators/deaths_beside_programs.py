"""Deaths beside programs: of an attempt alone, which leaves those that it has started to end by themselves; and of such
a program alone.

Elsewhere they die with the attempt, as in a container. What reads from a pipe takes its end for the end of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from sinkproof.chaos.program_points import FED, STARTED
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import evenly, first_of_each, spread
from sinkproof.generators.interleavings import within
from sinkproof.generators.native_calls import bursts, distinct
from sinkproof.subject.static_analysis.names_in_code import has_name
from sinkproof.workload.job_names import ORPHANS_JOB

KILLED: Final = "kill-program"
PROGRAMS_MOST: Final = 12
START_PROGRAMS: Final = (
    *("subprocess", "Popen", "popen", "system", "create_subprocess_exec", "create_subprocess_shell"),
    *("fork", "posix_spawn", "posix_spawnp", "multiprocessing", "ProcessPoolExecutor"),
)


def deaths_of_programs(recorded: RunResult) -> list[Schedule]:
    """`recorded`: a run without faults, with its system calls. Before some of those that other processes have made."""
    apart = (
        fault for burst in distinct(bursts(recorded)) if burst.is_apart for fault in burst.faults(burst.calls, KILLED)
    )
    return [Schedule((fault,)) for fault in evenly([*apart], PROGRAMS_MOST)]


def deaths_beside_programs(campaign: CampaignView) -> Iterator[Schedule]:
    """At each line, and in commits also the last time that a line is executed; and where `subprocess` has started a
    program, or has sent it a part of its input.
    """
    if has_name(campaign.runner.files, *START_PROGRAMS):
        traced = campaign.traced_baseline
        commits = within(traced, "notify_complete", "kill", last=True)
        beside = campaign.run(Schedule(job=ORPHANS_JOB))
        fed = (fault for fault in spread(beside, "kill") if fault.point in (STARTED, FED))
        faults = dict.fromkeys(chain(commits, fed, first_of_each(traced, "kill", lines=True)))
        yield from (Schedule((fault,), job=ORPHANS_JOB) for fault in faults)
