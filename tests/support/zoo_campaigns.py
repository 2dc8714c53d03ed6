"""Campaigns on members of the zoo that end after a number of schedules, whatever the load of the machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from sinkproof.campaign.campaign_budget import begin, conclude, has_least, run_campaign
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.reports.document import SubjectResult
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import fresh_folder

ZOO: Final = Path(__file__).parents[1] / "zoo"
SHELLS: Final = ("simulated", "process")
RIGHT_SCHEDULES: Final = 150  # in the simulated shell, at least, of a right sink: one to two seconds


def locator_of(member: str) -> str:
    file, _, name = member.partition(":")
    return f"{ZOO / file}.py:{name}"


@contextmanager
def folder() -> Iterator[Path]:
    made = fresh_folder()
    try:
        yield made
    finally:  # one of them leaves its store beside the folder, by intention
        for left in (made, made.with_name(f"{made.name}-elsewhere")):
            shutil.rmtree(left, ignore_errors=True)


class Stopping:
    """Asked after every schedule. A campaign ends after a number of schedules, whatever the load of the machine."""

    def __init__(self, is_enough: Callable[[CampaignResults, int], bool]) -> None:
        self.is_enough, self.asked = is_enough, count(1)

    def __call__(self, results: CampaignResults) -> bool:
        return self.is_enough(results, next(self.asked))


def task_of(member: str, shell: str, *, schedule: str = "") -> Task:
    return Task(locator=locator_of(member), shell=shell, budget_seconds=0, schedule=schedule)


def explored(member: str, shell: str, *, should_stop: Callable[[CampaignResults, int], bool]) -> ShellOutcome:
    """The outcome in one shell, until there is enough."""
    contract = load(locator_of(member))
    with folder() as path:
        return run_campaign(
            contract, task_of(member, shell), folder=path, progress=SILENT, should_stop=Stopping(should_stop)
        )


def explored_in_part(
    member: str,
    *,
    should_stop: Callable[[CampaignResults, int], bool],
    chosen: Callable[[Sequence[Schedule]], Sequence[Schedule]],
) -> ShellOutcome:
    """The outcome in the process shell, where a schedule takes a tenth of a second: every stage, a part of each."""
    contract = load(locator_of(member))
    stopping = Stopping(should_stop)
    with folder() as path:
        results, scratch = begin(contract, task_of(member, "process"), folder=path, progress=SILENT)
        with process_runner(contract, scratch) as runner:
            ProcessCampaign(
                runner,
                results,
                should_stop=stopping,
                run_all=lambda schedules, trace_lines, run: map(run, chosen(schedules)),
            ).carry_out(PROCESS_PLAN)
    return conclude(results, seconds=1.0, closure=None)


def judged(member: str, *outcomes: ShellOutcome) -> SubjectResult:
    """The verdict on a member, of what its shells have found."""
    subject = SubjectProgress(load(locator_of(member)))
    for outcome in outcomes:
        subject.shells.append(outcome.result)
        subject.findings += outcome.findings
        subject.unknowns += outcome.unknowns
        subject.deferred += [outcome.deferred] if outcome.deferred else []
        subject.lines_passed |= outcome.lines_passed
        subject.lines_struck |= outcome.lines_struck
        subject.add_code(outcome)
    return judge_subject(subject)


def certified(member: str) -> tuple[SubjectResult, list[ShellOutcome]]:
    """In both shells, until nothing is left that would make the verdict UNKNOWN."""

    def explored_in(shell: str) -> ShellOutcome:
        task, schedules = task_of(member, shell), RIGHT_SCHEDULES if shell == "simulated" else 0

        def is_enough(results: CampaignResults, asked: int) -> bool:
            return asked >= schedules and (bool(results.steering.deferred_to_processes) or has_least(results, task))

        return explored(member, shell, should_stop=is_enough)

    outcomes = [explored_in(shell) for shell in SHELLS]
    return judged(member, *outcomes), outcomes
