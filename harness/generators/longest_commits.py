"""Faults in the longest of many commits: there a sink may merge, compact, or remove what earlier commits have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.fault_sites import evenly, in_turn, passes
from sinkproof.workload.job_names import MANY_CHECKPOINTS_JOB
from sinkproof.workload.made_jobs import shape_name
from sinkproof.workload.rows import MANY_CHECKPOINTS

IN_COMMIT_MOST: Final = 60  # passes of lines
SINKS_OF_MANY_COMMITS: Final = (3, 4)  # nothing follows the last one of a checkpoint, which is another one then


def kills_in_the_longest_of_many_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """Each time that a line is executed in the longest commit of twelve, if that is longer than usual."""
    commit = longest_commit(campaign.run_traced(Schedule(job=MANY_CHECKPOINTS_JOB)))
    if len(commit) > len(longest_commit(campaign.traced_baseline)):
        yield from (Schedule((fault,), job=MANY_CHECKPOINTS_JOB) for fault in evenly(commit, IN_COMMIT_MOST))


def pauses_in_the_longest_of_many_commits(campaign: CampaignView) -> Iterator[Schedule]:
    """The same, while the next subtasks commit: one of them does then what is done now and then, such as to remove what
    the other one has not read yet.
    """
    yield from in_turn(_pauses(campaign, sinks=sinks) for sinks in SINKS_OF_MANY_COMMITS)


def _pauses(campaign: CampaignView, *, sinks: int) -> Iterator[Schedule]:
    """The first and the last time at each line."""
    job = shape_name(sources=2, sinks=sinks, rows=2 * MANY_CHECKPOINTS, batch=1, every=2)
    commit = longest_commit(campaign.run_traced(Schedule(job=job)))
    if len(commit) > len(longest_commit(campaign.traced_baseline)):
        edges = ({fault.point: fault for fault in passed} for passed in (commit[::-1], commit))
        pauses = dict.fromkeys(replace(fault, kind="pause") for each in edges for fault in each.values())
        yield from (Schedule((pause,), job=job) for pause in evenly([*pauses], IN_COMMIT_MOST))


def longest_commit(run: RunResult) -> list[Fault]:
    """Kills at its lines."""
    commits: dict[tuple[str, int], list[Fault]] = {}
    time: Counter[str] = Counter()  # of the commit that an actor is in, or had last
    inside: set[str] = set()
    for actor, point, occurrence in passes(run):
        if point == "notify_complete.before":
            inside.add(actor)
            time[actor] += 1
        elif point == "notify_complete.after":
            inside.discard(actor)
        elif actor in inside and is_line(point):
            commits.setdefault((actor, time[actor]), []).append(Fault(actor, point, occurrence, "kill"))
    return max(commits.values(), key=len, default=[])
