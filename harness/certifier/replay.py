"""Runs one schedule again on the same subject, with the same outcome: for debugging a finding."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sinkproof.campaign.finding_text import timeline
from sinkproof.campaign.task import Task
from sinkproof.certifier.perform import try_again
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.lines import executable_lines
from sinkproof.chaos.points import LINE, is_line, is_system_call
from sinkproof.chaos.schedule import STANDARD, Fault, parse
from sinkproof.chaos.services.inside_run import is_inside_service
from sinkproof.chaos.services.spark_cluster.standalone_spark import hosts_in
from sinkproof.execution.run_result import RunResult
from sinkproof.foreach_batch.certifying_query import named_query
from sinkproof.generators.feasible import impossible
from sinkproof.judging.oracle import named
from sinkproof.judging.verdict_and_exit_codes import Verdict
from sinkproof.reports.progress import SILENT
from sinkproof.reports.report_facts import NOT_LOST
from sinkproof.subject.claims import ORACLE_CLAIMS
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import load, load_to_read
from sinkproof.subject.service_options import DEFAULT_SERVICES, ServiceOptions
from sinkproof.workload.jobs import named_job


@dataclass(frozen=True, slots=True)
class Replay:
    contract: Contract
    run_result: RunResult

    @property
    def verdict(self) -> Verdict:
        """VIOLATED: a claim broke. UNKNOWN: a fault never fired; or the standard job without one has no rows."""
        schedule, does_work = self.run_result.schedule, self.run_result.finished and self.run_result.rows_committed
        if not (schedule.faults or does_work) and schedule.job == STANDARD:
            return Verdict.UNKNOWN
        claims = [ORACLE_CLAIMS[anomaly.oracle] & self.contract.claims for anomaly in self.run_result.anomalies]
        if any(claims):
            return Verdict.VIOLATED
        return Verdict.UPHELD if self.run_result.fired else Verdict.UNKNOWN

    @property
    def document(self) -> dict[str, Any]:
        anomalies = [
            {"oracle": each.oracle, "why": each.why, "lost": list(each.lost), "extra": list(each.extra)}
            for each in self.run_result.anomalies
        ]
        return {
            "schedule": str(self.run_result.schedule),
            "struck": [str(fault) for fault in self.run_result.struck],
            "verdict": self.verdict.value,
            "anomalies": anomalies,
            "finished": self.run_result.finished,
            "log": self.run_result.event_log.decode(),
        }


class ReplayFailed(RuntimeError):
    """The run has no result. `ours`: because this program failed, not the subject."""

    def __init__(self, why: str, *, ours: bool) -> None:
        super().__init__(why)
        self.ours = ours


def replay(
    text: str,
    locator: str,
    *,
    shell: str = "simulated",
    here: bool = False,
    services: ServiceOptions = DEFAULT_SERVICES,
    master: str = "",
) -> Replay:
    """`here`: in this process, where a debugger can stop in the sink, and where the sink can hang or end it.

    Raises ScheduleError or ContractError for bad arguments, ReplayFailed for a run without a result.
    """
    schedule = parse(text, kinds=frozenset(KINDS))
    contract = load(locator) if here else load_to_read(locator)
    if contract.kind == "foreach_batch":
        named_query(schedule.job)
    else:
        named_job(schedule.job)
    if why := impossible(schedule, contract, shell, on_hosts=bool(hosts_in(master))):
        raise ContractError(why)
    inside = services.inside_service or any(map(is_inside_service, schedule.faults))  # nodes then have other settings
    services = replace(services, inside_service=inside)
    task = Task(locator=locator, shell=shell, budget_seconds=0, schedule=str(schedule), services=services)
    task = replace(task, master=master or task.master)
    if here:
        return Replay(contract, try_again(task))
    from sinkproof.certifier.task_processes import Failure, run_tasks

    with closing(run_tasks([task], progress=SILENT, cores=1)) as results:
        _, result = next(results)
    if isinstance(result, Failure):
        if result.origin == "input":
            raise ContractError(result.why)
        raise ReplayFailed(result.why, ours=result.origin == "ours")
    return Replay(contract, result)


def _why_unfired(fault: Fault, contract: Contract, run_result: RunResult) -> str:
    line = LINE.fullmatch(fault.point)
    file = getattr(sys.modules.get(type(contract.given).__module__), "__file__", None)
    if line and file and file.endswith(f"/{line['file']}") and int(line["number"]) not in executable_lines(Path(file)):
        return f"line {line['number']} of {line['file']} is not executed within a function"
    places = Counter((run_result.names[actor], point) for actor, point in run_result.trace)
    passed = [point for name, point in places if name == fault.actor]
    if is_inside_service(fault):
        kills = [kill for window in run_result.inside for kill in window.kills_of(fault.actor)]
        others = ", ".join(f"{kill.point}#{kill.occurrence}" for kill in kills) or "none"
        return f"the replay is void: {fault.actor} has not met this call at its place. It met: {others}"
    times = places[fault.actor, fault.point]
    if is_system_call(fault.point) and times < fault.occurrence:
        met = Counter(point for name, point in places.elements() if name == fault.actor and is_system_call(point))
        others = ", ".join(f"{point} ({number})" for point, number in met.items()) or "none"
        return f"the replay is void: it has not met this call at its place. Its outward calls: {others}"
    if times >= fault.occurrence:
        return "it was passed only before the preceding fault: faults strike in their order"
    if times:
        return f"it was passed {times} times"
    if fault.actor not in run_result.names:
        return f"there is no {fault.actor} in this job, but {', '.join(run_result.names)}"
    met_lines = map(LINE.fullmatch, passed if line else ())
    if executed := {int(met["number"]) for met in met_lines if met and line and met["file"] == line["file"]}:
        numbers = ", ".join(map(str, sorted(executed)))
        return f"never executed by {fault.actor}, but lines {numbers} of {fault.point[5:].rpartition(':')[0]}"
    known = sorted({point for name, point in places if name == fault.actor and not is_line(point)})
    return f"never passed; {fault.actor} passes {', '.join(known) or 'nothing'}"


def describe(replayed: Replay, *, log: bool = False) -> str:
    """The run as text: events in order, the faults among them, what was wrong."""
    run_result, lines = replayed.run_result, [f"{replayed.contract.name}: {replayed.run_result.schedule}"]
    for event in timeline(run_result):
        lines.append(f"  {'!' if event.struck else ' '} {event.at:7.3f}  {event.actor:34} {event.what}")
    if run_result.struck_line is not None:
        at = run_result.struck_line
        lines.append(f"struck at {at.file}:{at.number}: {at.text}")
    missing = run_result.schedule.faults[len(run_result.struck) :]
    lines += [f"never struck: {fault} ({_why_unfired(fault, replayed.contract, run_result)})" for fault in missing]
    for anomaly in run_result.anomalies:
        lines.append(f"{anomaly.oracle}: {anomaly.why}")
        missing_rows = NOT_LOST.get(anomaly.oracle, "lost") + ":"
        lines += [f"    {missing_rows:6} {named(anomaly.lost)}"] if anomaly.lost else []
        lines += [f"    extra: {named(anomaly.extra)}"] if anomaly.extra else []
    if not (run_result.finished or run_result.anomalies):
        lines.append(f"the job did not recover, as it may here, so that no loss was judged: {run_result.failure}")
    lines.append(f"{run_result.rows_committed} rows committed; {replayed.verdict.value}")
    if log:
        lines += ["", run_result.event_log.decode()]
    return "\n".join(lines)
