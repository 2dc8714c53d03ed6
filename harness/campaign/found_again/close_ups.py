"""Makes the runs of the most telling findings once more, and records each change of the target in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from sinkproof.campaign.finding_text import row_sent, timeline
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.feasible import impossible
from sinkproof.judging.target_log import TargetLog
from sinkproof.reports.document import Finding
from sinkproof.reports.finding_groups import by_weight
from sinkproof.reports.json_files import plain
from sinkproof.subject.claims import ORACLE_CLAIMS, READ_BESIDE
from sinkproof.subject.heartbeat import heartbeat
from sinkproof.workload.jobs import input_of

FINDINGS_MOST: Final = 3  # of one shell: reports show the first of each claim
SECONDS_MOST: Final = 2.0  # after which none is begun


def look_closer(results: CampaignResults, runner: ScheduleRunner) -> None:
    """The first finding of each oracle gets the record of its run, where the run shows the same again."""
    deadline = Deadline(SECONDS_MOST)
    for finding in _most_telling(results.findings, results.contract.name):
        if deadline.over or results.progress.is_interrupted():
            return
        with heartbeat(finding.schedule, results.report):
            closer = _recorded(finding, runner)
        if closer is not None:
            results.findings[results.findings.index(finding)] = closer


def _most_telling(findings: Sequence[Finding], subject: str) -> list[Finding]:
    by_schedule = {(each.oracle, each.schedule): each for each in findings if each.target is None}
    first: dict[str, Finding] = {}
    for each in by_weight([plain(finding) for finding in by_schedule.values()], subject=subject):
        first.setdefault(each["oracle"], by_schedule[each["oracle"], each["schedule"]])
    return list(first.values())[:FINDINGS_MOST]


def _recorded(finding: Finding, runner: ScheduleRunner) -> Finding | None:
    schedule = parse(finding.schedule, kinds=frozenset(KINDS))
    if not _can_be_watched(schedule, runner):
        return None
    log = TargetLog()
    runner.attach = log.attach
    try:
        beside = bool(ORACLE_CLAIMS[finding.oracle] & READ_BESIDE)
        lines = any(is_line(fault.point) for fault in schedule.faults)
        result = runner.run_alone(schedule, trace_lines=lines, concurrent_reader=beside)
    finally:
        runner.attach = None
    shown = next((each for each in result.anomalies if each.oracle == finding.oracle), None)
    if shown is None or not result.fired:
        return None
    sent = partial(row_sent, source=input_of(schedule.job))
    return replace(finding, target=log.record(shown, sent), timeline=timeline(result))


def _can_be_watched(schedule: Schedule, runner: ScheduleRunner) -> bool:
    """Deaths of a sink without freeze and thaw are shown by processes: see confirmation.py."""
    shell = runner.scratch.shell
    real = shell == "process" or runner.contract.copies
    return real and not impossible(schedule, runner.contract, shell)
