"""What becomes of a complete checkpoint when recovery comes after the time for which targets keep what is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sinkproof.execution.recorded_job import RecordedRun, letters, once_each, record_job
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch

SOURCE: Final = letters("aebgaebg|gabegabe")
TIMEOUT_SECONDS: Final = 10.0  # of transactions, where the target has such
LATE: Final = 1.2  # times the timeout


def run_job(contract: Contract, scratch: Scratch, **options: Any) -> RecordedRun:
    """The small job, simulated and watched. `options`: of `record_job`."""
    options = {"sink": lambda: contract.sink(scratch), **options}
    return record_job(
        source_to_sink(SOURCE).plan(),
        options.pop("sink"),
        read=lambda: contract.committed(scratch),
        **options,
    )


class Late(NamedTuple):
    """What a recovery has found that came too late."""

    rows_lost: int
    job_failed: bool


def recovered_late(contract: Contract, scratch: Scratch) -> Late:
    """Simulated: checkpoint 1 is complete, one sink dies before it hears of it, and recovery comes late."""
    options: dict[str, Any] = {"sink": _impatient(contract, scratch)} if contract.locator == "memory/two-phase" else {}
    run = run_job(
        *(contract, scratch),
        schedule="sink[0].notify_complete.before#1=kill",
        restart=lambda: FixedDelay(attempts=2, delay=1000 * LATE * TIMEOUT_SECONDS),
        **options,
    )
    covered = run.simulation.covered(run.seen.decided[0])
    lost, _ = once_each(SOURCE, run.visible)
    promised = [row for row in lost if row[1] < covered[row[0]]]
    return Late(len(promised), not run.simulation.finished)


def _impatient(contract: Contract, scratch: Scratch) -> Callable[[], TwoPhaseCommitSink]:
    """Its store goes by virtual time only where it is told to."""

    def make() -> TwoPhaseCommitSink:
        target: Any = contract.given.sink(scratch).target
        target.transaction_timeout = TIMEOUT_SECONDS
        return TwoPhaseCommitSink(target)

    return make
