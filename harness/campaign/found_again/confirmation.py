"""Repeats findings of the simulated shell in real processes before they convict a sink.

In the simulated shell, a whole-job crash is a copy of the target, from which another run recovers later, and all
attempts share their modules. What a sink's module remembers by then comes from a run that went on; after a real death
it would be gone. So a finding is dropped if the same schedule breaks no claim in processes.
"""

from __future__ import annotations

import shutil
from typing import Final

from sinkproof.campaign.found_again.close_ups import look_closer
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.feasible import impossible
from sinkproof.reports.document import Finding
from sinkproof.subject.claims import ORACLE_CLAIMS, READ_BESIDE
from sinkproof.subject.scratch import Scratch, fresh_folder

FINDINGS_MOST: Final = 6
OF_RECOVERIES: Final = ("O6", "O10")  # they are found in recoveries without further rows, which no schedule describes
WHY: Final = "what its module remembers outlives a death in this process, and real ones end otherwise"


def confirm(results: CampaignResults, *, hang_seconds: float) -> None:
    """Drops findings that processes refute, and leaves deaths to the process shell if there were any. If the contract
    has freeze and thaw, one confirmed finding is enough: the other findings stay, too. So does what a reader saw beside
    sinks of which none died: beside processes it reads less often.
    """
    stay = [each for each in results.findings if _was_read_beside(each)]
    left = [each for each in results.findings if each.claimed and each not in stay]
    found = {each.schedule for each in left if each.oracle not in OF_RECOVERIES}
    schedules = [parse(text, kinds=frozenset(KINDS)) for text in sorted(found, key=len)]
    real = [schedule for schedule in schedules if not impossible(schedule, results.contract, "process")][:FINDINGS_MOST]
    run_results = _in_processes(results, real, hang_seconds=hang_seconds) if real else []
    refuted = {
        str(run_result.schedule)
        for run_result in run_results
        if run_result.fired and not _convicts(run_result, results)
    }
    confirmed = {str(run_result.schedule) for run_result in run_results if _convicts(run_result, results)}
    if not refuted or (results.contract.copies and confirmed):
        return
    kept = [each for each in results.findings if each in stay or each.schedule in confirmed]
    results.forget()
    results.findings += kept
    results.report_findings()
    results.steering.deferred_to_processes = WHY


def _was_read_beside(finding: Finding) -> bool:
    faults = parse(finding.schedule, kinds=frozenset(KINDS)).faults
    return bool(ORACLE_CLAIMS[finding.oracle] & READ_BESIDE) and not any(map(_is_deadly, faults))


def _is_deadly(fault: Fault) -> bool:
    return fault.kind.startswith("kill") or KINDS[fault.kind].is_power_loss


def _in_processes(results: CampaignResults, schedules: list[Schedule], *, hang_seconds: float) -> list[RunResult]:
    from sinkproof.execution.process_runner import process_runner

    folder = fresh_folder()
    scratch = Scratch(
        name=f"{results.contract.name}-confirming", path=folder, shell="process", services=results.services
    )
    try:
        with process_runner(results.contract, scratch, hang_seconds=hang_seconds) as runner:
            beside = bool(results.contract.claims & READ_BESIDE)
            run_results = [runner.run_alone(schedule, concurrent_reader=beside) for schedule in schedules]
            look_closer(results, runner)
            return run_results
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _convicts(run_result: RunResult, results: CampaignResults) -> bool:
    return any(ORACLE_CLAIMS[anomaly.oracle] & results.contract.claims for anomaly in run_result.anomalies)
