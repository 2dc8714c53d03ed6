"""What a report says of one finding: the command that replays it, the last steps, the timeline."""

from __future__ import annotations

import shlex
from bisect import bisect_left
from itertools import groupby
from operator import itemgetter
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.fault_kind import HOSTS
from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.points import AROUND_CALLS, COORDINATOR_POINTS, is_line
from sinkproof.chaos.schedule import COORDINATOR, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.judging.oracle import Anomaly
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.reports.document import Finding, TimelineEvent
from sinkproof.subject.contract import Contract
from sinkproof.workload.ledger import Identity

ROWS_SHOWN: Final = 4  # with their contents
VALUE_SHOWN: Final = 40  # characters
TURNS_SHOWN: Final = 6  # of sinks, after the fault: what repeats or overwrites comes soon
STEPS_SHOWN: Final = 5  # of the struck actor, the last one included: enough to show its place in the protocol


def place_of(anomaly: Anomaly, schedule: Schedule) -> tuple[str, str]:
    """Findings of one oracle with equal places are one."""
    last = schedule.faults[-1] if schedule.faults else None
    return anomaly.oracle, f"{last.point}={last.kind}" if last else ""


def newest_finding(contract: Contract, finding: Finding) -> str:
    """What is printed when it is found. Those of the simulated shell are run again in processes (confirmation.py)."""
    unconfirmed = finding.shell == "simulated" and contract.kind == "sink" and not contract.is_ours
    at = [f"  at {finding.line.file}:{finding.line.number}  {finding.line.text.strip()}"] if finding.line else []
    return "\n".join(
        [
            f"✗ {contract.name}: {finding.claim}: {finding.why}",
            *at,
            f"  replay  {finding.replay}",
            *(["  found in a simulation: real deaths have to confirm it"] if unconfirmed else []),
        ]
    )


def contents_of(anomaly: Anomaly, source: Input) -> list[str]:
    """Key and value of some of its rows, as the source of the job sends them."""
    rows = [row for row in dict.fromkeys((*anomaly.lost, *anomaly.extra)) if _is_sent(row, source)][:ROWS_SHOWN]
    return [f"{split}:{offset} {row_sent((split, offset), source)}" for split, offset in rows]


def row_sent(row: Identity, source: Input) -> str:
    """Its key and value, as the source of the job sends them; empty if it sends no such row."""
    if not _is_sent(row, source):
        return ""
    offsets = source.offsets(row[0])
    at = bisect_left(offsets, row[1])
    within = at % source.batch_rows
    sent = source.batch(row[0], offsets[at - within]).rows[within]  # of a batch that readers read: they are kept
    return f"{sent.key}={sent.value[:VALUE_SHOWN]}"


def _is_sent(row: Identity, source: Input) -> bool:
    split, offset = row
    return 0 <= split < source.splits and offset in source.offsets(split)


def row_of(point: str) -> str:
    """The grid's row of a point: each named point has one, all lines of a file share one."""
    return f"lines of {point[5:].rsplit(':', 1)[0]}" if is_line(point) else point


def replay_line(schedule: Schedule, locator: str, shell: str, *, nodes: int = 1) -> str:
    """The command that runs this schedule again. `nodes`: how many each service has."""
    line = f"sinkproof replay {shlex.quote(str(schedule))} {shlex.quote(locator)} --on {shell}"
    line += " --network toxiproxy" if any(fault.kind in TOXICS for fault in schedule.faults) else ""
    line += " --master cluster:3" if any(KINDS[fault.kind].needs == HOSTS for fault in schedule.faults) else ""
    return line + (f" --nodes {nodes}" if nodes > 1 else "")


def steps(result: RunResult) -> list[str]:
    """The named points that the actor struck last had passed right before, in order; empty where the order is not
    known.
    """
    if not result.fired or not result.struck:
        return []
    fault, at = result.struck[-1], place_of_the_last_fault(result)
    before = [point for actor, point in result.trace[:at] if result.names[actor] == fault.actor]
    return [*[point for point in before if not is_line(point)][1 - STEPS_SHOWN :], fault.point] if at >= 0 else []


def place_of_the_last_fault(result: RunResult) -> int:
    """In the trace; -1 where it is not known."""
    fault = result.struck[-1]
    passed = [
        at
        for at, (actor, point) in enumerate(result.trace)
        if (result.names[actor], point) == (fault.actor, fault.point)
    ]
    return passed[fault.occurrence - 1] if len(passed) >= fault.occurrence else -1


def effects(result: RunResult) -> list[str]:
    """What all sinks did at the target after the last fault, in order: a line for each turn of one of them. An `open`
    begins a new attempt.
    """
    if not result.fired or not result.struck or (at := place_of_the_last_fault(result)) < 0:
        return []
    done = [(result.names[actor], _effect(point)) for actor, point in result.trace[at + 1 :]]
    turns = groupby((each for each in done if each[1]), key=itemgetter(0))
    lines = [f"{actor}: {' → '.join(effect for _, effect in turn)}" for actor, turn in turns]
    left = len(lines) - TURNS_SHOWN
    return [*lines[:TURNS_SHOWN], *([f"and {left} more turns"] if left > 0 else [])]


def _effect(point: str) -> str:
    """What a point says of the target; empty if nothing."""
    if point == "open.before":
        return "open"
    if is_line(point) or point in AROUND_CALLS or point in COORDINATOR_POINTS or point.endswith(".before"):
        return ""
    return point.removesuffix(".after")


def timeline(result: RunResult) -> list[TimelineEvent]:
    struck = [(fault.actor, fault.point, fault.kind) for fault in result.struck]  # a detail may be a list
    events = []
    for at, actor, generation, what, detail in result.history:
        text = f"{what}: {detail}" if detail is not None else what
        name = actor if actor == COORDINATOR else f"{actor} (generation {generation})"
        events.append(TimelineEvent(at=at / 1000, actor=name, what=text, struck=(actor, what, detail) in struck))
    return events
