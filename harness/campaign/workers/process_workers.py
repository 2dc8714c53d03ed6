"""Worker processes of a campaign in the process shell: so that no core is idle, while a process waits for its attempts
or for its broker.

Runs overlap only if nothing shows that they could disturb each other. A contract that has a service, `setup` or
`teardown` may share what is outside of its folder; of other contracts watched runs, one of them with a recovery, show
what they change there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from sinkproof.campaign.process_campaign import why_not_watched
from sinkproof.campaign.workers.pool_worker import PoolWorker
from sinkproof.campaign.workers.worker_pool import (
    LateWorkers,
    PoolNotes,
    report_ready,
    reporting_errors,
    serve,
    start_worker,
)
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.chaos.system_calls.place_names import SOCKET, is_drawn
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
WORTH: Final = 20  # schedules: a second. As long takes the start, and the trial whether runs may overlap
AROUND_RUNS: Final = ("setup", "teardown")
WITH_RECOVERY: Final = Schedule((Fault(COORDINATOR, "checkpoint.persist.after", 2, "kill-job"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a worker process is to know. `slowest_seconds`: of all replies in runs without faults, so far."""

    locator: str
    name: str
    hang_seconds: float
    services: ServiceOptions
    slowest_seconds: float = 0.0
    is_late: bool = False  # it is given schedules when it has reported, not at once
    expected: str = ""  # how a run without faults ends; empty: it is not compared


@contextmanager
def workers_beside(runner: ProcessRunner, cores: int, *, notes: PoolNotes | None = None) -> Iterator[LateWorkers]:
    """On each core but this one. Those with a service of their own start at once, because that takes long. `notes`: see
    `WorkerPool`.
    """
    count = min(cores, WORKERS_MOST) - 1
    waits = bool(runner.scratch.services.breakable())
    with ExitStack() as stack:

        def start() -> list[PoolWorker]:
            return _start(runner, stack, count, is_late=not waits) if waits or is_apart(runner) else []

        wish = runner.contract.side_by_side
        if count < 1 or wish is False or (waits and not wish):
            yield LateWorkers()
        elif waits:
            workers = start()
            yield LateWorkers(start=lambda: workers, notes=notes)
        else:
            yield LateWorkers(start=start, worth=WORTH, notes=notes)


def is_apart(runner: ProcessRunner) -> bool:
    """Whether nothing shows that runs in two folders could disturb each other. For this two runs are watched."""
    contract = runner.contract
    if runner.scratch.services.used or contract.kind != "sink" or any(map(contract.offers, AROUND_RUNS)):
        return False
    plain = runner.run_watched(Schedule(), names_elsewhere=True)
    if why_not_watched(plain) or not _keeps_apart(plain):
        return False
    recovered = runner.run_watched(WITH_RECOVERY, names_elsewhere=True)
    if not (recovered.finished and recovered.fired and _keeps_apart(recovered)):
        return False
    return not set(plain.paths_elsewhere) & set(recovered.paths_elsewhere)


def _keeps_apart(watched: RunResult) -> bool:
    """No other run meets a temporary file with a name that is drawn anew."""
    sent = any(is_system_call(point) and SOCKET in point for _, point in watched.trace)
    unseen = watched.unwatched or watched.unseen or watched.unreadable
    return not (unseen or sent or watched.peers or watched.bound) and all(map(is_drawn, watched.paths_elsewhere))


def _start(runner: ProcessRunner, stack: ExitStack, count: int, *, is_late: bool) -> list[PoolWorker]:
    preload = (*PRELOAD, "sinkproof.campaign.workers.process_workers")
    server = stack.enter_context(ForkServer(preload=preload))
    orders = [
        Beside(
            locator=runner.contract.locator,
            name=f"{runner.scratch.name}-{number}",
            hang_seconds=runner.hang_seconds,
            services=runner.scratch.services.options,
            slowest_seconds=runner.slowest_seconds,
            is_late=is_late,
        )
        for number in range(2, count + 2)
    ]
    patience = CALLS_MOST * runner.hang_seconds
    return [start_worker(server, stack, ENTRY, order, seconds=patience, ready=not is_late) for order in orders]


def live(inside: Inside, order: Beside) -> None:
    """The entry of a worker process."""
    folder = fresh_folder()
    services = ServicesInUse(options=order.services, apart=True)
    scratch = Scratch(name=order.name, path=folder, shell="process", services=services)
    try:
        with (
            reporting_errors(inside),
            process_runner(load(order.locator), scratch, hang_seconds=order.hang_seconds) as runner,
        ):
            first = runner.run(Schedule())  # how long calls take, and what the reader shows, is known from then on
            runner.slowest_seconds = max(runner.slowest_seconds, order.slowest_seconds)

            def run(schedule: Schedule, trace_lines: bool) -> RunResult:
                return runner.run(schedule, trace_lines=trace_lines)

            if order.is_late:
                report_ready(inside, first, expected=order.expected)
            serve(inside, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
