"""The Spark part of `make bench`: rows committed, checkpoints, deaths, beside Structured Streaming's own file sink."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from floors import forced_ms, spark_starts_per_minute
from spark_runs import Followed, cycles, quantile
from structured import structured_peer

from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.execution.spark_runner import fresh_cluster
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, SparkFailed
from sinkproof.subject.scratch import fresh_folder

HERE = str(Path(__file__).parent)
INTERVAL_MS = 50
INTERVAL_UNDER_DEATHS_MS = 10  # as in the long job: what is measured is the recovery, not the wait for a timer
SINKS = 2
FLINK_ROWS_PER_S = 680_000  # keyed count into its file sink, Java, 2 cores; see `known`
DEATHS = (  # kind, victim, times, what it is called, cycles a minute to aim at
    ("kill", "attempt", 60, "attempt killed", 1200),
    ("kill", COORDINATOR, 25, "coordinator killed", None),
    ("kill-worker", "attempt", 8, "worker killed", None),
    ("kill-job", "attempt", 3, "driver and JVM killed", None),
)
Row = dict[str, Any]


@contextmanager
def bench_cluster() -> Iterator[Cluster]:
    """Its processes find the recipes beside this file."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([HERE, *([before] if before else [])])
    try:
        with fresh_cluster() as cluster:
            yield cluster
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@contextmanager
def folder_on(place: str) -> Iterator[Path]:
    """`place`: "tmpfs" or "disk"."""
    folder = fresh_folder() if place == "tmpfs" else Path(tempfile.mkdtemp(prefix=f"sinkproof-{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def steady(cluster: Cluster, *, place: str, form: str, counted: bool, seconds: float) -> Row:
    """Rows a second between complete checkpoints, and ms from trigger to durable, at full speed."""
    with folder_on(place) as folder:
        run = Followed(cluster, folder, form=form, counted=counted, interval_ms=INTERVAL_MS)
        run.warm_up()
        run.story.clear()
        run.flow(seconds)
        complete = run.events("complete")
        run.stop()
        first, last = complete[0], complete[-1]
        took = [1000 * (each["at"] - each["trigger"]) for each in complete]
        files = [path.stat().st_size for path in run.target.rglob("*") if path.is_file()]
        return {
            "forced": forced_ms(folder, sizes=[sum(files) // len(files)] * SINKS),
            "rows_per_s": (last["rows"] - first["rows"]) / (last["at"] - first["at"]),
            "p50": quantile(took, 0.5),
            "p95": quantile(took, 0.95),
            "wrong": run.difference(),
        }


def deaths(cluster: Cluster, *, restarts: float) -> list[Row]:
    """All deaths in one run; its output must be exact in the end. `restarts`: full restarts a minute of the peer."""
    rows: list[Row] = []
    with folder_on("tmpfs") as folder:
        run = Followed(cluster, folder, form="arrow", counted=False, interval_ms=INTERVAL_UNDER_DEATHS_MS)
        try:
            run.warm_up()
            for seed, of in enumerate(DEATHS):
                rows += deaths_of_a_kind(run, of, seed=seed, restarts=restarts)
            run.stop()
        except SparkFailed as error:  # what was measured before that is worth having
            cluster.close()
            return marked(rows or [line("deaths", 0, "cycles/min", None)], str(error)[:120])
        return marked(rows, run.difference())


def deaths_of_a_kind(
    run: Followed, of: tuple[str, str, int, str, int | None], *, seed: int, restarts: float
) -> list[Row]:
    kind, victim, times, called, aim = of
    against = restarts if kind == "kill-job" else None
    seen = cycles(run, kind, victim, times=times, seed=seed)
    aim_ms = 45 if called == "attempt killed" else None
    return [
        line(f"{called} ({times} times)", seen["per_minute"], "cycles/min", aim, against=against),
        line(f"{called}: next checkpoint complete, p50", seen["p50"], "ms", aim_ms),
        line(f"{called}: next checkpoint complete, p95", seen["p95"], "ms", None),
    ]


def line(what: str, value: float, unit: str, aim: float | None, *, against: float | None = None) -> Row:
    row: Row = {"what": what, "value": round(value) if value > 1000 else round(value, 1), "unit": unit, "aim": aim}
    return row | ({"against_structured_streaming": round(value / against, 1)} if against else {})


def marked(rows: list[Row], wrong: str) -> list[Row]:
    """Rows that rest on an output that is not exact say so; nothing else does."""
    return [row | ({"wrong": wrong} if wrong else {}) for row in rows]


def measure(seconds: float) -> list[Row]:
    peers = {"arrow": structured_peer("parquet", seconds=seconds, restarts=0)}
    peers["jsonl"] = structured_peer("json", seconds=seconds, restarts=2)
    restarts = peers["jsonl"]["restarts_per_minute"]
    with bench_cluster() as cluster:
        rows = [row for form, peer in peers.items() for row in rates(cluster, form, peer, seconds=seconds)]
        seen = steady(cluster, place="disk", form="arrow", counted=False, seconds=seconds)
        rows += marked(checkpoints("disk", seen, aim=15), seen["wrong"])
        rows += deaths(cluster, restarts=restarts)
    rows += [line("floor: Spark is started, and killed with its JVM", spark_starts_per_minute(4), "cycles/min", None)]
    for form, peer in (("Parquet", peers["arrow"]), ("JSON", peers["jsonl"])):
        rows += marked([line(f"Structured Streaming, {form}", peer["rows_per_s"], "rows/s", None)], peer["wrong"])
    return [
        *rows,
        line("Structured Streaming, driver and JVM killed", restarts, "cycles/min", None),
        line("known: Flink 2.3 in Java, keyed count, elsewhere", FLINK_ROWS_PER_S, "rows/s", None),
        line("load of the machine in the last minute", os.getloadavg()[0], "", None),
    ]


def rates(cluster: Cluster, form: str, peer: Row, *, seconds: float) -> Iterator[Row]:
    for counted, what, aim in ((False, "files/two-phase", 10_000_000), (True, "keyed count into it", 5_000_000)):
        seen = steady(cluster, place="tmpfs", form=form, counted=counted, seconds=seconds)
        some = [line(f"{what}, {form}", seen["rows_per_s"], "rows/s", aim, against=peer["rows_per_s"])]
        if form == "arrow" and not counted:
            some += checkpoints("tmpfs", seen, aim=6)
        yield from marked(some, seen["wrong"])


def checkpoints(place: str, seen: Row, *, aim: float) -> list[Row]:
    """At full speed; the aim is one for the median."""
    what = f"checkpoint every {INTERVAL_MS} ms on {place}"
    return [
        line(f"{what}, p50", seen["p50"], "ms", aim),
        line(f"{what}, p95", seen["p95"], "ms", None),
        line(f"floor: as many bytes written and forced on {place}", seen["forced"], "ms", None),
    ]


def table(rows: list[Row]) -> Iterator[str]:
    yield f"{'On Spark':52}{'':>12} {'':14}{'aim':>10}  x Structured Streaming"
    for row in rows:
        value, aim = f"{row['value']:,}", f"{row['aim']:,}" if row["aim"] else ""
        ratio = row.get("against_structured_streaming", "")
        wrong = f"  WRONG: {row['wrong']}" if "wrong" in row else ""
        yield f"{row['what']:52}{value:>12} {row['unit']:14}{aim:>10}  {ratio:22}{wrong}".rstrip()
