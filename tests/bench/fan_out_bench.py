"""Fan-out in `make bench`: campaigns on 1 and 2 executors of Spark, and 4 to 256 in a simulated scheduler.

The campaign's own process runs next to nothing, so that what is measured are the executors. Their speed-up is that of
this machine, with its cores and its load; the simulated scheduler has measured times of single schedules, and what each
of them costs in the campaign's process and in the hub, which are the serial part. `python fan_out_bench.py` prints it.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from sinkproof.campaign.fan_out.fan_out_cluster import FannedOut, fanned_out
from sinkproof.campaign.fan_out.spark_workers import processes_on_executors, simulated_on_executors
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.workers import process_workers, simulated_workers, worker_pool
from sinkproof.campaign.workers.worker_pool import LateWorkers, PoolNotes
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.fault_pairs import AT_STEPS, FaultPairs
from sinkproof.generators.fault_sites import places
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

SUBJECT = "files/two-phase"
EXECUTORS = (1, 2)
SIMULATED = (4, 8, 16, 32, 64, 128, 256)
WARM_UP = 40  # schedules, again and again until each worker has begun
SAMPLE = 200  # schedules, of which each is timed
TICKS = os.sysconf("SC_CLK_TCK")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """Seconds of CPU time that one schedule costs a process through which all of them pass."""

    campaign: float
    hub: float


def makespan(tasks: Sequence[float], *, slots: int, batch: int, serial: Serial) -> float:
    """The time at which the last result has been taken, of tasks given in batches, two at once to each slot. Campaign
    and hub handle one batch after the other, on its way there and back (half of the cost each).
    """
    waiting = deque([tasks[at : at + batch] for at in range(0, len(tasks), batch)])
    campaign, hub, free = 0.0, 0.0, [0.0] * slots
    ends: list[tuple[float, int, int]] = []

    def give(slot: int) -> None:
        nonlocal campaign, hub
        if waiting:
            given = waiting.popleft()
            campaign += serial.campaign * len(given) / 2
            hub = max(hub, campaign) + serial.hub * len(given) / 2
            free[slot] = max(free[slot], hub) + sum(given)
            heappush(ends, (free[slot], slot, len(given)))

    for slot in (*range(slots), *range(slots)):
        give(slot)
    while ends:
        end, slot, count = heappop(ends)
        hub = max(hub, end) + serial.hub * count / 2
        campaign = max(campaign, hub) + serial.campaign * count / 2
        give(slot)
    return campaign


@contextmanager
def left_to_workers() -> Iterator[None]:
    before, worth = worker_pool.LEFT_TO_WORKERS, process_workers.WORTH
    worker_pool.LEFT_TO_WORKERS, process_workers.WORTH = 1, 1  # type: ignore[misc]
    try:
        yield
    finally:
        worker_pool.LEFT_TO_WORKERS, process_workers.WORTH = before, worth  # type: ignore[misc]


@dataclass(slots=True)
class Clock:
    """What one fanned-out part of a campaign takes, from the moment when as many workers as wanted have begun."""

    spark: FannedOut
    began: tuple[float, float, float] | None = None
    runs: int = 0

    def now(self) -> tuple[float, float, float]:
        assert self.spark.cluster.process is not None
        stat = Path(f"/proc/{self.spark.cluster.process.pid}/stat").read_text().rpartition(")")[2].split()
        return perf_counter(), process_time(), (int(stat[11]) + int(stat[12])) / TICKS

    def begin(self) -> None:
        self.began = self.now()

    def is_over(self, seconds: float) -> bool:
        return self.began is not None and perf_counter() - self.began[0] >= seconds

    def rates(self) -> tuple[float, Serial]:
        assert self.began is not None
        wall, campaign, hub = (after - before for after, before in zip(self.now(), self.began, strict=True))
        return self.runs / wall, Serial(campaign=campaign / self.runs, hub=hub / self.runs)


def pairs(spark: FannedOut, *, seconds: float) -> tuple[float, Serial]:
    """Ordered pairs per second in the simulated shell, and what is serial: after the run of each first fault."""
    clock = Clock(spark)
    with (
        left_to_workers(),
        scratch_folder() as folder,
        ScheduleRunner(load(SUBJECT), Scratch(name="bench", path=folder)) as runner,
        simulated_on_executors(runner, spark.access, hang_seconds=60, notes=PoolNotes()) as workers,
    ):
        results = CampaignResults(contract=runner.contract, shell="simulated")
        rounds = FaultPairs(AT_STEPS, runner.run).rounds(runner.run(Schedule()))
        _warm_up(runner, workers, next(rounds)[:WARM_UP], slots=len(spark.look().slots))
        clock.begin()
        every = (workers.run_all(schedules, trace_lines=False, run=runner.run) for schedules in rounds)
        for result in chain.from_iterable(every):
            results.add_one_of_many(result)
            clock.runs += 1
            if clock.is_over(seconds):
                break
        return clock.rates()


def deaths(spark: FannedOut, *, seconds: float) -> tuple[float, Serial]:
    """Schedules per second with SIGKILL of processes, and what is serial."""
    clock = Clock(spark)
    with (
        left_to_workers(),
        scratch_folder() as folder,
        process_runner(load(SUBJECT), Scratch(name="bench", path=folder, shell="process")) as runner,
        processes_on_executors(runner, spark.access, notes=PoolNotes()) as workers,
    ):
        schedules = schedules_of(runner)
        _warm_up(runner, workers, schedules[:WARM_UP], slots=len(spark.look().slots))
        results = CampaignResults(contract=runner.contract, shell="process")
        clock.begin()
        for result in workers.run_all(100 * schedules, trace_lines=False, run=runner.run):
            results.add(result)
            clock.runs += 1
            if clock.is_over(seconds):
                break
        return clock.rates()


def _warm_up(runner: ScheduleRunner, workers: LateWorkers, schedules: Sequence[Schedule], *, slots: int) -> None:
    """Until each slot has a worker that has run something."""
    while len(workers.workers) < slots or not all(worker.ready for worker in workers.workers):
        for _ in workers.run_all(schedules, trace_lines=False, run=runner.run):
            continue


def schedules_of(runner: ScheduleRunner) -> list[Schedule]:
    baseline = runner.run(Schedule())
    faults = [fault for kind in ("kill", "stop", "kill-job") for fault in places(baseline, kind)]
    return [Schedule((fault,)) for fault in faults]


def times(shell: str) -> list[float]:
    """Of single schedules, one after the other on one core: in the simulated shell in CPU time."""
    clock = process_time if shell == "simulated" else perf_counter
    with scratch_folder() as folder:
        scratch = Scratch(name="bench", path=folder, shell=shell)
        contract = load(SUBJECT)
        opened = ScheduleRunner(contract, scratch) if shell == "simulated" else process_runner(contract, scratch)
        with opened as runner:
            found = []
            for schedule in schedules_of(runner)[:SAMPLE]:
                began = clock()
                runner.run(schedule)
                found.append(clock() - began)
    return found


def seconds_of_first_faults() -> float:
    """Of CPU time: what comes after a first fault is known when it has been run."""
    with scratch_folder() as folder, ScheduleRunner(load(SUBJECT), Scratch(name="bench", path=folder)) as runner:
        baseline, began = runner.run(Schedule()), process_time()
        next(FaultPairs(AT_STEPS, runner.run).rounds(baseline))
        return process_time() - began


def measure(seconds: float) -> list[Row]:
    rows: list[Row] = []
    for shell, part, batch in (("simulated", pairs, simulated_workers.BATCH_MOST), ("process", deaths, 1)):
        single = times(shell)
        mean, serial = sum(single) / len(single), Serial(campaign=0.0, hub=0.0)
        rows.append({"what": f"{shell}: a schedule on one core", "value": round(1000 * mean, 2), "unit": "ms"})
        alone = 0.0
        for executors in EXECUTORS:
            began = perf_counter()
            with fanned_out(f"local[{executors}]", [SUBJECT], progress=SILENT) as spark:
                start = perf_counter() - began
                rate, serial = part(spark, seconds=seconds)
            alone = alone or rate
            what = f"{shell}: {executors} executor{'s' if executors > 1 else ''} of one core"
            rows.append({"what": what, "value": round(rate, 1), "unit": "schedules/s"})
            rows[-1]["speed_up"] = round(rate / alone, 2)
            rows.append({"what": f"{what}, start of Spark", "value": round(start, 1), "unit": "s"})
        for name, value in (("campaign", serial.campaign), ("hub", serial.hub)):
            what = f"{shell}: serial, in the process of the {name}, for each schedule"
            rows.append({"what": what, "value": round(1e6 * value, 1), "unit": "us"})
        if shell == "simulated":
            rows.append({"what": "simulated: serial, first faults of all pairs, once", "unit": "s"})
            rows[-1]["value"] = round(seconds_of_first_faults(), 2)
        many = single * (4 * 256 * batch * 4 // len(single) + 1)
        for slots in SIMULATED:
            speed_up = sum(many) / makespan(many, slots=slots, batch=batch, serial=serial)
            what = f"{shell}: simulated scheduler, {slots} slots"
            rows.append({"what": what, "value": round(speed_up / mean, 1), "unit": "schedules/s"})
            rows[-1]["speed_up"] = round(speed_up, 1)
        rows.append({"what": f"{shell}: at most, as the campaign is serial", "unit": "schedules/s"})
        rows[-1]["value"] = round(1 / max(serial.campaign, serial.hub, 1e-9), 1)
    rows.append({"what": "load of this machine in the last minute", "value": os.getloadavg()[0], "unit": "processes"})
    return rows


def table(rows: list[Row]) -> Iterator[str]:
    yield f"Schedules of {SUBJECT} on executors of Spark"
    for row in rows:
        yield f"  {row['what']:72}{row['value']:>10} {row['unit']:12}{row.get('speed_up', ''):>8}"


if __name__ == "__main__":
    print(*table(measure(float(sys.argv[1]) if sys.argv[1:] else 5.0)), sep="\n")
