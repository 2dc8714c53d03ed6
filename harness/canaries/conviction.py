"""Decides whether a canary is convicted of its own sin, and whether a control is acquitted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from sinkproof.campaign.campaign_budget import run_campaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.task import Task
from sinkproof.canaries.catalogue import CANARIES, CONTROLS_UNDER_WATCH, ON_SPARK, Canary
from sinkproof.canaries.search import CampaignFunction, repeat, search, servers_of, watch_in
from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.chaos.system_calls.watched_program import why_not_watched
from sinkproof.reports.document import CanaryResult, Finding
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import check, load, locator_of
from sinkproof.subject.scratch import scratch_folder

CANARY_SECONDS_MOST: Final = 60.0  # most need one; the whole campaign takes 30 on a machine that does other things
SPARK_SECONDS_MOST: Final = 180.0  # most need two, but a zombie has to meet its successor there


def canaries_for(shell: str) -> list[Canary]:
    """Those that this shell can convict: some of them only where system calls can be watched."""
    if shell == "spark":
        return [canary for canary in CANARIES if canary.name in ON_SPARK]
    found = [canary for canary in CANARIES if shell in canary.shells]
    needs_watch = any(canary.stages for canary in found)
    return [canary for canary in found if not canary.stages] if needs_watch and why_not_watched() else found


def try_canary(
    canary: Canary, shell: str, *, progress: Progress = SILENT, run_as: CampaignFunction | None = None
) -> CanaryResult:
    if run_as is None:
        with campaign_functions([canary], shell, progress=progress) as campaign_for:
            return try_canary(canary, shell, progress=progress, run_as=campaign_for(canary))
    seconds = SPARK_SECONDS_MOST if shell == "spark" else CANARY_SECONDS_MOST
    deadline, began = Deadline(seconds), now()
    findings, unknowns = _campaign(
        (f"canary: {canary.name}", canary.contract),
        shell,
        progress=progress,
        should_stop=lambda results: deadline.over or own_sin(canary, results.findings) is not None,
        run_as=run_as,
    )
    sin = own_sin(canary, findings)
    others = ", ".join(sorted({finding.oracle for finding in findings})) or "; ".join(unknowns) or "nothing"
    return CanaryResult(
        name=canary.name,
        root_cause=canary.root_cause,
        convicted=sin is not None,
        seconds=round(now() - began, 3),
        oracle=sin.oracle if sin else None,
        schedule=sin.schedule if sin else None,
        shell=shell,
        why=sin.why if sin else f"expected {sorted(canary.oracles)}, found {others}{_in_time(deadline, seconds)}",
    )


@contextmanager
def campaign_functions(
    canaries: Sequence[Canary], shell: str, *, progress: Progress
) -> Iterator[Callable[[Canary], CampaignFunction]]:
    """How each of them is tried, as long as the context lasts."""
    if shell == "simulated":
        yield lambda canary: partial(search, canary)
        return
    with servers_of(canary.contract for canary in canaries) as servers:
        yield lambda canary: repeat(canary, servers, convicting_schedule(canary, progress=progress))


def convicting_schedule(canary: Canary, *, progress: Progress) -> Schedule | None:
    """The schedule that convicts it in the simulated shell, if that one can."""
    if "simulated" not in canary.shells:
        return None
    result = try_canary(canary, "simulated", progress=progress)
    return parse(result.schedule, kinds=frozenset(KINDS)) if result.schedule else None


def _in_time(deadline: Deadline, seconds: float) -> str:
    return f" within {seconds:.0f} s; is the machine busy?" if deadline.over else ""


def own_sin(canary: Canary, findings: Sequence[Finding]) -> Finding | None:
    about = parse(canary.under)
    for finding in findings:
        schedule = parse(finding.schedule)
        kinds = [fault.kind for fault in schedule.faults] or [""]
        if finding.oracle not in canary.oracles or kinds[-1] not in canary.faults or len(kinds) < canary.times:
            continue
        if (schedule.ids, bool(schedule.orders)) == (about.ids, bool(about.orders)):
            return finding
    return None


def try_control(
    name: str,
    contract: type,
    shell: str,
    *,
    progress: Progress = SILENT,
    seconds: float,
    run_as: CampaignFunction = run_campaign,
) -> CanaryResult:
    deadline, began = Deadline(seconds), now()
    findings, unknowns = _campaign(
        (f"control: {name}", contract),
        shell,
        progress=progress,
        should_stop=lambda results: deadline.over or any(finding.claimed for finding in results.findings),
        run_as=run_as,
    )
    first = next((finding for finding in findings if finding.claimed), None)
    return CanaryResult(
        name=name,
        root_cause="",
        control=True,
        convicted=first is not None or bool(unknowns),
        seconds=round(now() - began, 3),
        oracle=first.oracle if first else None,
        schedule=first.schedule if first else None,
        shell=shell,
        why=first.why if first else "; ".join(unknowns),
    )


def try_controls_under_watch(shell: str, *, progress: Progress = SILENT, seconds: float) -> list[CanaryResult]:
    """In the stages that convict the canaries beside them."""
    with servers_of(contract for _, contract, _ in CONTROLS_UNDER_WATCH) as servers:
        return [
            try_control(name, contract, shell, progress=progress, seconds=seconds, run_as=watch_in(stages, servers))
            for name, contract, stages in CONTROLS_UNDER_WATCH
        ]


def _campaign(
    labelled: tuple[str, type],
    shell: str,
    *,
    progress: Progress,
    should_stop: Callable[[CampaignResults], bool],
    run_as: CampaignFunction,
) -> tuple[Sequence[Finding], Sequence[str]]:
    label, contract = labelled
    with scratch_folder() as folder, scratch_folder() as home:
        checked = laid_out(contract, home)
        checked.given.label = label
        task = Task(locator=checked.locator, shell=shell, budget_seconds=0)
        outcome = run_as(checked, task, folder=folder, progress=progress, should_stop=should_stop)
    return outcome.findings, outcome.unknowns


def laid_out(contract: type, home: Path) -> Contract:
    """The contract, checked; that of code_of_users.py from a copy of its file below `home`, as users have theirs."""
    locator = locator_of(contract)
    if not hasattr(contract, "laid_out_in"):
        return check(locator, contract)
    file, _, name = locator.rpartition(":")
    copy = home / contract.laid_out_in / Path(file).name
    copy.parent.mkdir(parents=True)
    shutil.copyfile(file, copy)
    return load(f"{copy}:{name}")
