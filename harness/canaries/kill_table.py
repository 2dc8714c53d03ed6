"""All canaries and controls, what each must be convicted of, and the trial that every certificate begins with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sinkproof.canaries import controls, two_phase, write_ahead
from sinkproof.chaos.clock import Deadline, now
from sinkproof.contract import check, locator_of
from sinkproof.reports.document import CanaryResult, Finding
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.scratch import fresh_folder
from sinkproof.tally import Tally
from sinkproof.tasks import ShellOutcome, Task, run_campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """`oracles`, `faults`: its own sin is convicted by one of these oracles with one of these faults last; ""
    is none.
    """

    name: str
    contract: type
    root_cause: str
    oracles: frozenset[str]
    faults: frozenset[str]


def _canary(name: str, contract: type, *, root_cause: str, oracles: str, faults: str) -> Canary:
    return Canary(
        name=name,
        contract=contract,
        root_cause=root_cause,
        oracles=frozenset(oracles.split()),
        faults=frozenset("" if word == "none" else word for word in faults.split()),
    )


Runner = Callable[..., ShellOutcome]  # what `run_campaign` does, perhaps in another way
CANARY_SECONDS_MOST: Final = 60.0  # most need one; the whole campaign takes 30 on a machine that does other things
DEATHS: Final = "kill kill-job"
CANARIES: Final = (
    _canary("publishes in snapshot", two_phase.PublishesInSnapshot, root_cause="R5", oracles="O3", faults="none"),
    _canary(
        "forgets pending on restore",
        two_phase.ForgetsPendingOnRestore,
        root_cause="R14",
        oracles="O1 O10",
        faults=DEATHS,
    ),
    _canary(
        "commit raises on repeat", two_phase.CommitRaisesOnRepeat, root_cause="R11", oracles="O6 O1 O10", faults=DEATHS
    ),
    _canary("commit copies again", two_phase.CommitCopiesAgain, root_cause="R1", oracles="O2", faults=DEATHS),
    _canary("names by what is pending", two_phase.NamesByWhatIsPending, root_cause="R2", oracles="O1", faults="none"),
    _canary("swallows a failed rename", two_phase.SwallowsFailedRename, root_cause="R6", oracles="O1", faults="error"),
    _canary("no flush in snapshot", two_phase.NoFlushInSnapshot, root_cause="R4", oracles="O1 O10", faults=DEATHS),
    _canary("unfenced zombie", two_phase.UnfencedZombie, root_cause="R10", oracles="O1 O2 O9", faults="stop"),
    _canary(
        "close() removes pending files", two_phase.CloseRemovesPending, root_cause="R15", oracles="O1 O6", faults=DEATHS
    ),
    _canary("marker after data", write_ahead.MarkerAfterData, root_cause="R1", oracles="O2", faults=DEATHS),
    _canary("marker before data", write_ahead.MarkerBeforeData, root_cause="R1", oracles="O1 O10", faults=DEATHS),
    _canary("skip if id <= max", write_ahead.SkipsUpToMax, root_cause="R3", oracles="O1 O10", faults=DEATHS),
)
CONTROLS: Final = (("two-phase files", controls.TwoPhaseControl), ("write-ahead files", controls.WriteAheadControl))


def try_all(shell: str, *, progress: Progress = SILENT, control_seconds: float) -> Sequence[CanaryResult]:
    """Canaries until each is convicted for its own sin, controls for some seconds each: most tell in one."""
    if shell == "spark":
        from sinkproof.canaries.on_spark import try_all_on_spark

        return try_all_on_spark(progress=progress, control_seconds=control_seconds)
    results = [try_canary(canary, shell, progress=progress) for canary in CANARIES]
    return results + [
        try_control(name, contract, shell, progress=progress, seconds=control_seconds) for name, contract in CONTROLS
    ]


def try_canary(
    canary: Canary, shell: str, *, progress: Progress = SILENT, runner: Runner = run_campaign
) -> CanaryResult:
    deadline, began = Deadline(CANARY_SECONDS_MOST), now()
    findings, _ = _campaign(
        (f"canary: {canary.name}", canary.contract),
        shell,
        progress=progress,
        enough=lambda tally: deadline.over or own_sin(canary, tally.findings) is not None,
        runner=runner,
    )
    sin = own_sin(canary, findings)
    others = sorted({finding.oracle for finding in findings})
    return CanaryResult(
        name=canary.name,
        root_cause=canary.root_cause,
        convicted=sin is not None,
        seconds=round(now() - began, 3),
        oracle=sin.oracle if sin else None,
        schedule=sin.schedule if sin else None,
        shell=shell,
        why=sin.why if sin else f"expected {sorted(canary.oracles)}, found {others or 'nothing'}{_in_time(deadline)}",
    )


def _in_time(deadline: Deadline) -> str:
    return f" within {CANARY_SECONDS_MOST:.0f} s; is the machine busy?" if deadline.over else ""


def own_sin(canary: Canary, findings: Sequence[Finding]) -> Finding | None:
    for finding in findings:
        last = finding.schedule.split()[-1]
        kind = last.rpartition("=")[2] if "#" in last else ""
        if finding.oracle in canary.oracles and kind in canary.faults:
            return finding
    return None


def try_control(
    name: str,
    contract: type,
    shell: str,
    *,
    progress: Progress = SILENT,
    seconds: float,
    runner: Runner = run_campaign,
) -> CanaryResult:
    deadline, began = Deadline(seconds), now()
    findings, unknowns = _campaign(
        (f"control: {name}", contract),
        shell,
        progress=progress,
        enough=lambda tally: deadline.over or bool(tally.findings),
        runner=runner,
    )
    first = findings[0] if findings else None
    return CanaryResult(
        name=name,
        root_cause="",
        control=True,
        convicted=bool(findings or unknowns),
        seconds=round(now() - began, 3),
        oracle=first.oracle if first else None,
        schedule=first.schedule if first else None,
        shell=shell,
        why=first.why if first else "; ".join(unknowns),
    )


def _campaign(
    labelled: tuple[str, type], shell: str, *, progress: Progress, enough: Callable[[Tally], bool], runner: Runner
) -> tuple[Sequence[Finding], Sequence[str]]:
    label, contract = labelled
    checked = check(locator_of(contract), contract)
    checked.given.label = label
    task = Task(locator=checked.locator, shell=shell, budget_seconds=0)
    folder = fresh_folder()
    try:
        outcome = runner(checked, task, folder=folder, progress=progress, enough=enough)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome.findings, outcome.unknowns
