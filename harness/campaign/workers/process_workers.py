"""Worker processes of a campaign in the process shell: so that no core is idle, while a process waits for its attempts
or for its broker.

Runs overlap only if nothing shows that they could disturb each other. A contract that has a service may share what is
outside of its folder; of other contracts watched runs, one of them with a recovery, show what they change there, and so
do watched calls of `setup` and `teardown`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from sinkproof.campaign.baseline import why_not_watched
from sinkproof.campaign.workers.idle_cores import IdleCores
from sinkproof.campaign.workers.pool_worker import PoolWorker
from sinkproof.campaign.workers.watched_setup import keeps_to_its_folder
from sinkproof.campaign.workers.worker_pool import (
    LateWorkers,
    PoolNotes,
    report_ready,
    reporting_errors,
    serve,
    start_worker,
)
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.chaos.system_calls.place_names import is_drawn, is_sent
from sinkproof.chaos.system_calls.supervisor import maps_below_folder
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

ENTRY: Final = "sinkproof.campaign.workers.process_workers:live"
WORKERS_MOST: Final = 4  # a broker takes 400 MB
# So many calls may hang, one after the other, before a worker has come to the end of its schedules.
CALLS_MOST: Final = 12
WORTH: Final = 20  # so many schedules take a second, as do the start of workers and the trial whether runs may overlap
ONE_BY_ONE: Final = (
    "its runs do not overlap, as nothing shows that they share nothing outside of their folders. If all names there "
    "hold `scratch.path.name`, `side_by_side = True` in the contract lets several run at once"
)
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
    """On each core but this one, and more while cores are idle. Those with a service start at once, as that
    takes long, and no others follow. `notes`: see `WorkerPool`.
    """
    count = min(cores, WORKERS_MOST) - 1
    waits, wish = bool(runner.scratch.services.breakable()), runner.contract.side_by_side
    with ExitStack() as stack:
        if count < 1 or wish is False or (waits and not wish):
            yield LateWorkers()
            return
        beside = WorkersBeside(runner, stack, most=2 * count + 1)
        if waits:
            workers = [beside.start(is_late=False) for _ in range(count)]
            yield LateWorkers(start=lambda: workers, notes=notes)
            return

        def start() -> list[PoolWorker]:
            if wish or is_apart(runner):
                return [beside.start() for _ in range(count)]
            if notes is not None and runner.contract.kind == "sink":
                notes.say(ONE_BY_ONE)
            return []

        yield LateWorkers(start=start, worth=WORTH, notes=notes, joining=beside.more)


class WorkersBeside:
    """Starts the workers of one campaign. `most`: how many it may have."""

    def __init__(self, runner: ProcessRunner, stack: ExitStack, *, most: int) -> None:
        self.runner, self.stack, self.most = runner, stack, most
        self.server: ForkServer | None = None
        self.count = 0
        self.idle = IdleCores()

    def start(self, *, is_late: bool = True) -> PoolWorker:
        if self.server is None:
            preload = (*PRELOAD, "sinkproof.campaign.workers.process_workers")
            self.server = self.stack.enter_context(ForkServer(preload=preload))
        self.count += 1
        self.idle.look_again()
        order = Beside(
            locator=self.runner.contract.locator,
            name=f"{self.runner.scratch.name}-{self.count + 1}",
            hang_seconds=self.runner.hang_seconds,
            services=self.runner.scratch.services.options,
            slowest_seconds=self.runner.slowest_seconds,
            is_late=is_late,
        )
        patience = CALLS_MOST * self.runner.call_seconds_most
        tidies = self.runner.contract.offers("teardown")
        return start_worker(self.server, self.stack, ENTRY, order, seconds=patience, ready=not is_late, tidies=tidies)

    def more(self) -> list[PoolWorker]:
        """One more, if there are workers and idle cores."""
        return [self.start()] if 0 < self.count < self.most and self.idle.found() else []


def is_apart(runner: ProcessRunner) -> bool:
    """Whether nothing shows that runs in two folders could disturb each other. For this two runs are watched, and what
    is called before and after each.
    """
    contract = runner.contract
    if runner.scratch.services.used or contract.kind != "sink":
        return False
    around = any(map(contract.offers, AROUND_RUNS))
    if around and not keeps_to_its_folder(runner.servers.first, contract, runner.scratch):
        return False
    plain = runner.run_watched(Schedule(), names_elsewhere=True)
    if why_not_watched(plain, claims=contract.claims) or not _keeps_apart(plain):
        return False
    recovered = runner.run_watched(WITH_RECOVERY, names_elsewhere=True)
    if not (recovered.finished and recovered.fired and _keeps_apart(recovered)):
        return False
    return not set(plain.paths_elsewhere) & set(recovered.paths_elsewhere)


def _keeps_apart(watched: RunResult) -> bool:
    """No other run meets a temporary file with a name that is drawn anew."""
    sent = any(is_sent(point) for _, point in watched.trace)
    unseen = watched.unwatched or watched.unreadable or not all(map(maps_below_folder, watched.unseen))
    return not (unseen or sent or watched.peers or watched.bound) and all(map(is_drawn, watched.paths_elsewhere))


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
