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
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from peers import hypothesis_peer, naive_peer
from spark_bench import measure as measure_spark
from spark_bench import table as table_of_spark

from sinkproof.campaign_simulated import ORDER_OF_KINDS, places
from sinkproof.canaries.kill_table import CANARIES, try_canary
from sinkproof.canaries.two_phase import CommitCopiesAgain
from sinkproof.chaos.schedule import Schedule
from sinkproof.contract import load
from sinkproof.reference_engine.shells.spark.java import SparkUnavailable, check_available
from sinkproof.scratch import Scratch, fresh_folder
from sinkproof.trial import Laboratory


def simulated_rate(locator: str, *, seconds: float) -> float:
    """Checked schedules per second on one core: all named singles of the subject, over and over."""
    folder = fresh_folder()
    try:
        with Laboratory(load(locator), Scratch(name=f"{locator}-bench", path=folder)) as laboratory:
            baseline = laboratory.run(Schedule())
            faults = [fault for kind in (*ORDER_OF_KINDS, "kill-job") for fault in places(baseline, kind)]
            return rate(laboratory.run, (Schedule((fault,)) for fault in cycle(faults)), seconds=seconds)
    finally:
        shutil.rmtree(folder)


def process_rate(locator: str, *, seconds: float) -> float:
    """Kill and recover cycles per second: each schedule is one SIGKILL and a run to the end of input."""
    from sinkproof.campaign_process import process_laboratory

    folder = fresh_folder()
    try:
        with process_laboratory(load(locator), Scratch(name=locator, path=folder, shell="process")) as laboratory:
            baseline = laboratory.run(Schedule())
            faults = [fault for fault in places(baseline, "kill") if fault.actor.startswith("sink")]
            return rate(laboratory.run, (Schedule((fault,)) for fault in cycle(faults)), seconds=seconds)
    finally:
        shutil.rmtree(folder)


def rate(run: Callable[[Schedule], Any], schedules: Iterator[Schedule], *, seconds: float) -> float:
    began, done = perf_counter(), 0
    while perf_counter() - began < seconds:
        run(next(schedules))
        done += 1
    return done / (perf_counter() - began)


def seconds_to_find() -> float:
    """The canary that commits again by copying, until it is convicted."""
    canary = next(canary for canary in CANARIES if canary.contract is CommitCopiesAgain)
    return try_canary(canary, "simulated").seconds


def measure(seconds: float) -> list[dict[str, Any]]:
    hypothesis = hypothesis_peer(CommitCopiesAgain, examples=2000, repeats=5)
    naive = naive_peer(seconds=4 * seconds)
    naive_seconds = naive["find_s"] or naive["at_least_s"]
    lines = [
        ("memory/two-phase, simulated", simulated_rate("memory/two-phase", seconds=seconds), "schedules/s", 4000),
        (
            "files/two-phase on tmpfs, simulated",
            simulated_rate("files/two-phase", seconds=seconds),
            "schedules/s",
            1000,
        ),
        ("files/two-phase, process", process_rate("files/two-phase", seconds=seconds), "kills/s", 100),
        ("Hypothesis state machine", hypothesis["schedules_per_s"], "schedules/s", None),
        ("naive kill loop", naive["trials_per_s"], "trials/s", None),
    ]
    rows = [
        {
            "what": what,
            "value": round(value, 2),
            "unit": unit,
            "aim": aim,
            "against_hypothesis": round(value / hypothesis["schedules_per_s"], 2),
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
    if chosen.json:
        print(json.dumps(rows + on_spark, indent=1))
        return
    print(f"{'':52}{'':>12} {'':14}{'aim':>6}  x Hypothesis  x naive")
    for row in rows:
        ratios = f"{row['against_hypothesis']:12}  {row['against_naive']:7}" if "against_naive" in row else ""
        print(f"{row['what']:52}{row['value'] or '-':>12} {row['unit']:14}{row.get('aim') or '':>6}  {ratios}")
    if on_spark:
        print("", *table_of_spark(on_spark), sep="\n")
    print(json.dumps(rows + on_spark))


def on_spark_if_there(seconds: float) -> list[dict[str, Any]]:
    try:
        check_available()
    except SparkUnavailable as error:
        print(f"bench: nothing is measured on Spark: {error}", file=sys.stderr)
        return []
    return measure_spark(seconds)


if __name__ == "__main__":
    main()
