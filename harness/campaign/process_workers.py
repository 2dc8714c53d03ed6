"""Second laboratories of a campaign in the process shell: whoever waits for a broker leaves a core to somebody else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from sinkproof.campaign.worker_pool import WorkerPool, serve, start_worker, telling
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import PRELOAD, ProcessRunner, process_runner
from sinkproof.execution.schedule_runner import RunResult
from sinkproof.subject.contract import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

ENTRY: Final = "sinkproof.campaign.process_workers:live"
LANES_MOST: Final = 4  # a broker takes 400 MB
CALLS_MOST: Final = 12  # that may hang, one after the other, until a lane has come to the end of its schedules


@contextmanager
def workers_beside(runner: ProcessRunner, cores: int) -> Iterator[WorkerPool]:
    """As many as there are cores, where the subject waits for an external system and says that its runs do not meet."""
    is_breakable = bool(runner.scratch.services.breakable())
    count = min(cores, LANES_MOST) - 1 if is_breakable and runner.contract.offers("side_by_side") else 0
    if count < 1:
        yield WorkerPool(())
        return
    contract, seconds, options = runner.contract, runner.hang_seconds, runner.scratch.services.options
    with ForkServer(preload=(*PRELOAD, "sinkproof.campaign.process_workers")) as server, ExitStack() as stack:
        names = [f"{runner.scratch.name}-{number}" for number in range(2, count + 2)]
        patience = CALLS_MOST * seconds
        yield WorkerPool(
            [
                start_worker(server, stack, ENTRY, (contract.locator, name, seconds, options), seconds=patience)
                for name in names
            ]
        )


def live(inside: Inside, what: tuple[str, str, float, ServiceOptions]) -> None:
    """The entry of a lane: one schedule, one trial, until nobody asks any more. `what`: a locator, the scratch's name,
    after how many seconds a call counts as hung, the options of services.
    """
    locator, name, hang_seconds, options = what
    folder = fresh_folder()
    scratch = Scratch(name=name, path=folder, shell="process", services=ServicesInUse(options=options, apart=True))
    try:
        with (
            telling(inside),
            process_runner(load(locator), scratch, hang_seconds=hang_seconds) as runner,
        ):
            runner.run(Schedule())  # how long calls take is known from then on

            def run(schedule: Schedule, traced: bool) -> RunResult:
                runner.trace_lines = traced
                return runner.run(schedule)

            serve(inside, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
