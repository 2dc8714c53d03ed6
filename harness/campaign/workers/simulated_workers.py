"""Worker processes of a campaign in the simulated shell, where tens of thousands of schedules are to be run.

They run at low priority, and start only for many schedules, because their imports take a second.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from sinkproof.campaign.workers.pool_worker import PoolWorker
from sinkproof.campaign.workers.worker_pool import (
    LateWorkers,
    report_ready,
    reporting_errors,
    serve,
    start_worker,
)
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder

ENTRY: Final = "sinkproof.campaign.workers.simulated_workers:live"
# So many schedules take a second at named points, and five with lines: as long as workers take to start.
WORTH: Final = 500
BATCH_MOST: Final = 25
NICE: Final = 5
# A batch takes at most twice a call's limit; the campaign itself may be silent for three times that limit.
HANGS_MOST: Final = 2


ALONE: Final = LateWorkers()


@contextmanager
def workers_beside(runner: ScheduleRunner, cores: int, *, hang_seconds: float) -> Iterator[LateWorkers]:
    """One on each core but this one. A subject that needs a service or cannot be copied has none. Results without lines
    have no trace; findings are not confirmed yet.
    """
    scratch, locator = runner.scratch, runner.contract.locator
    with ExitStack() as stack:

        def start() -> list[PoolWorker]:
            count = cores - 1 if runner.contract.copies and not scratch.services.used else 0
            if not count:
                return []
            server = stack.enter_context(ForkServer(preload=("sinkproof.campaign.workers.simulated_workers",)))
            names = [f"{scratch.name}-{number}" for number in range(2, count + 2)]
            orders = [BesideSimulation(locator=locator, name=name) for name in names]
            patience = HANGS_MOST * hang_seconds
            tidies = runner.contract.offers("teardown")
            return [
                start_worker(server, stack, ENTRY, order, seconds=patience, ready=False, tidies=tidies)
                for order in orders
            ]

        yield LateWorkers(start=start, worth=WORTH, batch_most=BATCH_MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideSimulation:
    """What a worker process is to know. `expected`: how a run without faults ends; empty: it is not compared."""

    locator: str
    name: str
    expected: str = ""


def live(inside: Inside, order: BesideSimulation) -> None:
    """The entry of a worker process."""
    os.nice(NICE)
    folder = fresh_folder()
    try:
        with (
            reporting_errors(inside),
            ScheduleRunner(load(order.locator), Scratch(name=order.name, path=folder)) as runner,
        ):
            runner.find_own_files()

            def run(schedule: Schedule, trace_lines: bool) -> RunResult:
                result = runner.run(schedule, trace_lines=trace_lines)
                return result if trace_lines else without_trace(result)

            first = runner.run(Schedule())  # what the reader shows of each row is known from then on
            report_ready(inside, first, expected=order.expected)
            serve(inside, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def without_trace(result: RunResult) -> RunResult:
    """One of tens of thousands of results passes the same points as others, and the report shows few of them."""
    return replace(result, trace=[], history=[]) if result.fired else result
