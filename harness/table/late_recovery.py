"""Recovers a complete checkpoint after the target's transaction timeout, and counts the rows that are lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from sinkproof.execution.recorded_job import RecordedRun, letters, once_each, record_job
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.protocol import Sink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch

SOURCE: Final = letters("aebgaebg|gabegabe")
TIMEOUT_SECONDS: Final = 10.0  # of transactions, if the target has a timeout
LATE: Final = 1.2  # times the timeout


def run_job(
    contract: Contract, scratch: Scratch, *, sink: Callable[[], Sink] | None = None, **options: Any
) -> RecordedRun:
    """The small job in the simulated shell. `sink`: another one than the contract's; `options`: of `record_job`."""
    make = sink or partial(contract.sink, scratch)
    return record_job(source_to_sink(SOURCE).plan(), make, read=lambda: contract.committed(scratch), **options)


class LateRecovery(NamedTuple):
    rows_lost: int
    job_failed: bool


def recovered_late(contract: Contract, scratch: Scratch) -> LateRecovery:
    """In the simulated shell: checkpoint 1 is complete, one sink dies before it is notified, and recovery is late."""
    run = run_job(
        contract,
        scratch,
        sink=partial(_sink_with_timeout, contract, scratch) if contract.locator == "memory/two-phase" else None,
        schedule="sink[0].notify_complete.before#1=kill",
        restart=lambda: FixedDelay(attempts=2, delay=1000 * LATE * TIMEOUT_SECONDS),
    )
    covered = run.simulation.covered(run.seen.decided[0])
    lost, _ = once_each(SOURCE, run.visible)
    covered_rows = [row for row in lost if row[1] < covered[row[0]]]
    return LateRecovery(len(covered_rows), not run.simulation.finished)


def _sink_with_timeout(contract: Contract, scratch: Scratch) -> Sink:
    """The memory store applies a timeout of virtual time only if one is set."""
    target: Any = contract.given.sink(scratch).target
    target.transaction_timeout = TIMEOUT_SECONDS
    return TwoPhaseCommitSink(target)
