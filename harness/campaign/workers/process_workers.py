"""Worker processes of a campaign in the process shell: while one waits for its broker, another uses the core."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from sinkproof.campaign.workers.worker_pool import WorkerPool, reporting_errors, serve, start_worker
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

ENTRY: Final = "sinkproof.campaign.workers.process_workers:live"
WORKERS_MOST: Final = 4  # a broker takes 400 MB
CALLS_MOST: Final = 12  # that may hang, one after the other, until a worker has come to the end of its schedules


@contextmanager
def workers_beside(runner: ProcessRunner, cores: int) -> Iterator[WorkerPool]:
    """One per core, if the subject waits for an external system and its contract says `side_by_side` (its runs do not
    disturb each other).
    """
    is_breakable = bool(runner.scratch.services.breakable())
    count = min(cores, WORKERS_MOST) - 1 if is_breakable and runner.contract.offers("side_by_side") else 0
    if count < 1:
        yield WorkerPool(())
        return
    contract, seconds, options = runner.contract, runner.hang_seconds, runner.scratch.services.options
    with ForkServer(preload=(*PRELOAD, "sinkproof.campaign.workers.process_workers")) as server, ExitStack() as stack:
        names = [f"{runner.scratch.name}-{number}" for number in range(2, count + 2)]
        patience = CALLS_MOST * seconds
        yield WorkerPool(
            [
                start_worker(server, stack, ENTRY, (contract.locator, name, seconds, options), seconds=patience)
                for name in names
            ]
        )


def live(inside: Inside, what: tuple[str, str, float, ServiceOptions]) -> None:
    """The entry of a worker process. `what`: a locator, the scratch's name, after how many seconds a call counts as
    hung, the options of services.
    """
    locator, name, hang_seconds, options = what
    folder = fresh_folder()
    scratch = Scratch(name=name, path=folder, shell="process", services=ServicesInUse(options=options, apart=True))
    try:
        with (
            reporting_errors(inside),
            process_runner(load(locator), scratch, hang_seconds=hang_seconds) as runner,
        ):
            runner.run(Schedule())  # how long calls take, and what the reader shows, is known from then on

            def run(schedule: Schedule, trace_lines: bool) -> RunResult:
                return runner.run(schedule, trace_lines=trace_lines)

            serve(inside, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
