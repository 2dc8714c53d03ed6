"""For which sizes does a certificate hold? The largest of each that a run had: parallelism, rows, restarts, clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from sinkproof.execution.run_result import RunResult
from sinkproof.reference_engine.dataflow.job_graph import SubtaskPlan
from sinkproof.reports.coverage_text import WALL
from sinkproof.reports.document import Bounds
from sinkproof.workload.jobs import input_of, named_job
from sinkproof.workload.ledger import Ledger
from sinkproof.workload.rows import BATCHES_PER_CHECKPOINT

MOVING: Final = ("clock-back", "clock-forward", "expire")  # fault kinds
CONTEXT_CLOCK: Final = "context.clock"


@dataclass(slots=True)
class LargestRun:
    """Of the runs that finished and were judged on their own: none that took its end from another run."""

    sizes: Counter[str] = field(default_factory=Counter)
    clocks: dict[str, None] = field(default_factory=dict)
    noted: set[tuple[object, ...]] = field(default_factory=set)

    def note(self, result: RunResult) -> None:
        """Called for tens of thousands of runs, most of which are alike."""
        name, kinds = result.schedule.job, {fault.kind for fault in result.struck}.intersection(MOVING)
        about = name, result.restarts, result.checkpoints_pending, result.moved_wall_clock, frozenset(kinds)
        if not result.finished or about in self.noted:
            return
        self.noted.add(about)
        job = named_job(name)
        plans = [job.plan, *([job.later] if job.later and result.restarts else [])]
        for plan in plans:
            self._at_least(
                sources=largest(each for each in plan.subtasks if each.source is not None),
                sinks=largest(each for each in plan.subtasks if each.sink),
            )
        self._at_least(**rows_of(name), restarts=result.restarts, checkpoints_pending=result.checkpoints_pending)
        if job.clock is not None or (job.outage_seconds and result.restarts):
            self.clocks[f"{CONTEXT_CLOCK}: {name}"] = None
        if result.moved_wall_clock:
            self.clocks[f"{WALL}: {name}"] = None
        self.clocks.update({f"{CONTEXT_CLOCK}: {kind}": None for kind in sorted(kinds)})

    def note_rows(self, result: RunResult) -> None:
        """Of a run with another job than those of the workload; repeated rows are not counted as more of them."""
        if result.finished and not result.anomalies:
            self._at_least(rows=result.rows_committed, restarts=result.restarts)

    def note_wall_clock(self, job: str) -> None:
        self.clocks[f"{WALL}: {job}"] = None

    def _at_least(self, **sizes: int) -> None:
        self.sizes |= Counter(sizes)

    def document(self) -> Bounds:
        return Bounds(**self.sizes, clocks=tuple(self.clocks))


def largest(subtasks: Iterable[SubtaskPlan]) -> int:
    """The largest parallelism of a vertex."""
    return max(Counter(each.name.partition("[")[0] for each in subtasks).values(), default=0)


@cache
def rows_of(job: str) -> dict[str, int]:
    """All that its sources hold."""
    source = input_of(job)
    rows = Ledger(source).rows.values()
    batches = max(-(-number // source.batch_rows) for number in Counter(row.split for row in rows).values())
    size = sum(len(row.key.encode()) + len(row.value.encode()) for row in rows)
    return {
        "rows": len(rows),
        "bytes": size,
        "keys": len({row.key for row in rows}),
        "checkpoints": -(-batches // BATCHES_PER_CHECKPOINT),
    }
