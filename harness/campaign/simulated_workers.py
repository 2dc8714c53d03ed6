"""Second laboratories of a campaign in the simulated shell: where tens of thousands of schedules are to be run.

They take no more of a processor than nobody else wants, and they are started when there is enough to be done: what
they import takes a second.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from sinkproof.campaign.worker_pool import PoolWorker, WorkerPool, say_ready, serve, start_worker, telling
from sinkproof.chaos.lines import LineTracer
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner
from sinkproof.exploration.run_memo import MemoizedRuns
from sinkproof.subject.contract import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.subject.source_files import files_of

ENTRY: Final = "sinkproof.campaign.simulated_workers:live"
WORTH: Final = 500  # schedules: a second with named points, five with lines
BATCH_MOST: Final = 25
NICE: Final = 5
HANGS_MOST: Final = 2  # times a call's limit, in which a batch is done; the first laboratory may be silent for three


class SimulatedWorkers:
    """Those of one laboratory. `start`: makes them, once they are needed; none, where one core is all there is."""

    def __init__(self, *, start: Callable[[], Sequence[PoolWorker]] = lambda: ()) -> None:
        self.start, self.workers = start, list[PoolWorker]()

    def trials(
        self, schedules: Sequence[Schedule], *, traced: bool, run: Callable[[Schedule], RunResult]
    ) -> Iterator[RunResult]:
        """See lanes.Trials. Without lines, they are told briefly. What they show is not confirmed yet."""
        if len(schedules) >= WORTH and not self.workers:
            self.workers += self.start()
        return WorkerPool(self.workers, batch_most=BATCH_MOST).trials(schedules, traced=traced, run=run)

    def remark(self) -> str:
        """Why one of them runs every schedule to its end; empty if none does."""
        return next((worker.remark for worker in self.workers if worker.remark), "")


ALONE: Final = SimulatedWorkers()


@contextmanager
def workers_beside(runner: ScheduleRunner, cores: int, *, hang_seconds: float) -> Iterator[SimulatedWorkers]:
    """One on each core but this one. Who needs a service or cannot be copied is alone."""
    scratch, locator = runner.scratch, runner.contract.locator
    with ExitStack() as stack:

        def start() -> list[PoolWorker]:
            count = cores - 1 if runner.contract.copies and not scratch.services.used else 0
            if not count:
                return []
            server = stack.enter_context(ForkServer(preload=("sinkproof.campaign.simulated_workers",)))
            names = [f"{scratch.name}-{number}" for number in range(2, count + 2)]
            patience = HANGS_MOST * hang_seconds
            whats = [(locator, name, scratch.services.options) for name in names]
            return [start_worker(server, stack, ENTRY, what, seconds=patience, ready=False) for what in whats]

        yield SimulatedWorkers(start=start)


def live(inside: Inside, what: tuple[str, str, ServiceOptions]) -> None:
    """The entry of a worker. `what`: a locator, the scratch's name, the options of services."""
    locator, name, options = what
    os.nice(NICE)
    folder = fresh_folder()
    try:
        scratch = Scratch(name=name, path=folder, services=ServicesInUse(options=options))
        with telling(inside), ScheduleRunner(load(locator), scratch) as runner:
            memo = MemoizedRuns(runner, confirms=False)
            at_lines = MemoizedRuns(runner, confirms=False, tracing=tracer_of(runner))

            def run(schedule: Schedule, traced: bool) -> RunResult:
                return at_lines.run(schedule) if traced else briefly(memo.run(schedule))

            say_ready(inside)
            serve(inside, run, remark=lambda: memo.why_not)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tracer_of(runner: ScheduleRunner) -> LineTracer:
    """Of the lines of the sink's own code, which the laboratory can name from then on."""
    given = runner.contract.given
    tracer = LineTracer(files_of(given, runner.contract.sink(runner.scratch)))
    runner.files = tracer.files
    return tracer


def briefly(run_result: RunResult) -> RunResult:
    """One of tens of thousands: what it has passed was passed by others, and how it went is shown of a few."""
    return replace(run_result, trace=[], history=[]) if run_result.fired else run_result
