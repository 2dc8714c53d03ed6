"""`make bench`: rates of the shells beside those of their peers, all in this run, as two tables and as JSON.

A schedule is one full run to the end of input with the history recorded and every oracle asked. Ratios are what counts:
the machine is the same for all lines, and noisy.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fan_out_bench import measure as measure_fan_out
from fan_out_bench import table as table_of_fan_out
from first_hour_bench import measure as measure_first_hour
from first_hour_bench import table as table_of_first_hour
from floors import engine_rate, rate_with_disk
from foreach_bench import measure as measure_functions
from foreach_bench import table as table_of_functions
from growth_bench import measure as measure_growth
from growth_bench import table as table_of_growth
from kafka_bench import measure as measure_kafka
from kafka_bench import table as table_of_kafka
from peers import InMemory, hypothesis_peer, naive_peer
from process_bench import measure as measure_processes
from process_bench import table as table_of_processes
from spark_bench import measure as measure_spark
from spark_bench import table as table_of_spark
from system_call_bench import measure as measure_system_calls
from system_call_bench import table as table_of_system_calls

from sinkproof.canaries.conviction import CANARIES, try_canary
from sinkproof.canaries.two_phase import CommitCopiesAgain
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import places
from sinkproof.reference_engine.shells.spark.java_installation import SparkUnavailable, check_available
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import check, load, locator_of
from sinkproof.subject.scratch import Scratch, fresh_folder

KINDS = ("decline", "lose", "kill", "stop", "pause", "error", "kill-job")
IN_MEMORY = "Hypothesis state machine of memory/two-phase"


@contextmanager
def bench_runner(contract: Contract, *, disk: str = "") -> Iterator[ScheduleRunner]:
    """`disk`: "memory" or "real", for file sinks; real is tmpfs, where there is one."""
    folder = fresh_folder()
    settings = {"disk": disk} if disk else {}
    try:
        with ScheduleRunner(contract, Scratch(name="bench", path=folder, settings=settings)) as runner:
            yield runner
    finally:
        shutil.rmtree(folder)


def simulated_rate(contract: Contract, *, seconds: float, disk: str = "") -> float:
    """Schedules per second on one core: all named singles of the subject, over and over."""
    with bench_runner(contract, disk=disk) as runner:
        baseline = runner.run(Schedule())
        faults = [fault for kind in KINDS for fault in places(baseline, kind)]
        return rate(runner.run, (Schedule((fault,)) for fault in cycle(faults)), seconds=seconds)


def process_rate(locator: str, *, seconds: float) -> float:
    """Kill and recover cycles per second: each schedule is one SIGKILL and a run to the end of input."""
    from sinkproof.execution.process_runner import process_runner

    folder = fresh_folder()
    try:
        with process_runner(load(locator), Scratch(name=locator, path=folder, shell="process")) as runner:
            baseline = runner.run(Schedule())
            faults = [fault for fault in places(baseline, "kill") if fault.actor.startswith("sink")]
            schedules = (Schedule((fault,)) for fault in cycle(faults))
            return rate(runner.run, schedules, seconds=seconds, clock=perf_counter)
    finally:
        shutil.rmtree(folder)


def rate(
    run: Callable[[Schedule], Any],
    schedules: Iterator[Schedule],
    *,
    seconds: float,
    clock: Callable[[], float] = process_time,
) -> float:
    """Runs per second, of this process on a processor: one core, and a busy machine makes little difference."""
    began, done = clock(), 0
    while clock() - began < seconds and (schedule := next(schedules, None)) is not None:
        run(schedule)
        done += 1
    return done / (clock() - began)


def seconds_to_find() -> float:
    """The canary that commits again by copying, until it is convicted."""
    canary = next(canary for canary in CANARIES if canary.contract is CommitCopiesAgain)
    return try_canary(canary, "simulated").seconds


def disk_floor(contract: Contract, engine: float, *, kind: type, disk: str = "") -> float:
    """Runs per second of the engine alone and the calls to the disk alone."""
    with bench_runner(contract, disk=disk) as runner:
        return rate_with_disk(engine, kind=kind, run=runner.run)


def measure(seconds: float) -> list[dict[str, Any]]:
    hypothesis = hypothesis_peer(CommitCopiesAgain, examples=2000, repeats=5)
    in_memory = hypothesis_peer(InMemory(), examples=int(200 * seconds), repeats=1)
    naive = naive_peer(seconds=4 * seconds)
    naive_seconds = naive["find_s"] or naive["at_least_s"]
    memory, files = load("memory/two-phase"), load("files/two-phase")
    same = check(locator_of(CommitCopiesAgain), CommitCopiesAgain)
    engine = engine_rate(seconds=seconds, kinds=KINDS)
    on_tmpfs = disk_floor(files, engine, kind=RealDisk, disk="real")
    lines = [
        ("memory/two-phase", simulated_rate(memory, seconds=seconds), "schedules/s", 3000),
        ("files/two-phase in memory", simulated_rate(files, seconds=seconds), "schedules/s", 1500),
        (
            "files/two-phase on tmpfs",
            simulated_rate(files, seconds=seconds, disk="real"),
            "schedules/s",
            800,
        ),
        ("floor of memory/two-phase: the engine alone", engine, "schedules/s", None),
        ("floor in memory: and the disk alone", disk_floor(files, engine, kind=MemoryDisk), "schedules/s", None),
        ("floor on tmpfs: the same", on_tmpfs, "schedules/s", None),
        ("the Hypothesis machine's sink, simulated", simulated_rate(same, seconds=seconds), "schedules/s", None),
        ("files/two-phase, process", process_rate("files/two-phase", seconds=seconds), "kills/s", 100),
        ("Hypothesis state machine", hypothesis["schedules_per_s"], "schedules/s", None),
        (IN_MEMORY, in_memory["schedules_per_s"], "schedules/s", None),
        ("naive kill loop", naive["trials_per_s"], "trials/s", None),
    ]
    rows = [
        {
            "what": what,
            "value": round(value, 2),
            "unit": unit,
            "aim": aim,
            "against_hypothesis": round(
                value / (in_memory if "memory/two-phase" in what else hypothesis)["schedules_per_s"], 2
            ),
            "against_naive": round(value / naive["trials_per_s"], 1),
        }
        for what, value, unit, aim in lines
    ]
    finds = [
        ("a duplicate on commit retry: simulated", seconds_to_find()),
        ("a duplicate on commit retry: Hypothesis", hypothesis["find_s"]),
        (
            "a duplicate on commit retry: naive loop" + ("" if naive["find_s"] else " (not found by then)"),
            naive_seconds,
        ),
    ]
    return rows + [{"what": what, "value": value and round(value, 3), "unit": "s to find"} for what, value in finds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each rate")
    parser.add_argument("--spark-seconds", type=float, default=2.5, help="the same, of jobs on Spark")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rows, on_spark = measure(chosen.seconds), on_spark_if_there(chosen.spark_seconds)
    functions = measure_functions(chosen.seconds) if on_spark else []
    on_kafka = measure_kafka(chosen.spark_seconds) if on_spark else []
    fanned_out = measure_fan_out(chosen.seconds) if on_spark else []
    in_processes = measure_processes(chosen.seconds)
    calls = measure_system_calls(chosen.seconds)
    growing, first_hour = measure_growth(), measure_first_hour()
    every = rows + in_processes + calls + growing + first_hour + on_spark + functions + on_kafka + fanned_out
    if chosen.json:
        print(json.dumps(every, indent=1))
        return
    print(f"{'':52}{'':>12} {'':14}{'aim':>6}  x Hypothesis  x naive")
    for row in rows:
        ratios = f"{row['against_hypothesis']:12}  {row['against_naive']:7}" if "against_naive" in row else ""
        print(f"{row['what']:52}{row['value'] or '-':>12} {row['unit']:14}{row.get('aim') or '':>6}  {ratios}")
    print("", *table_of_processes(in_processes), "", *table_of_system_calls(calls), sep="\n")
    print("", *table_of_growth(growing), "", *table_of_first_hour(first_hour), sep="\n")
    if on_spark:
        print("", *table_of_spark(on_spark), "", *table_of_functions(functions), sep="\n")
        print("", *table_of_kafka(on_kafka), sep="\n")
        print("", *table_of_fan_out(fanned_out), sep="\n")
    print(json.dumps(every))


def on_spark_if_there(seconds: float) -> list[dict[str, Any]]:
    try:
        check_available()
    except SparkUnavailable as error:
        print(f"bench: nothing is measured on Spark: {error}", file=sys.stderr)
        return []
    return measure_spark(seconds)


if __name__ == "__main__":
    main()
