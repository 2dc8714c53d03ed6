"""`make soak`: the long job on Spark under random deaths of every kind, for an hour or for the given time.

Rows are counted by key and written by two-phase file sinks, at a pace that keeps the output checkable. Every few
minutes the job is stopped, what is committed is compared with what was read (each row once, each key's rows numbered
without a gap), and a new job begins in an empty folder. In the end no process and no file may be left. Exit status: 0
if all of that holds, else 1. The summary is written after every round.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import spark_rows
from soak_memory import grown, roles, sample, summary
from spark_bench import bench_cluster
from spark_runs import Followed, quantile

from sinkproof.certifier.circumstances import fingerprint
from sinkproof.certifier.soak_measurements import SCHEMA, SUMMARY
from sinkproof.chaos.clock import now
from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.execution.spark_runner import deaths
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, SparkFailed
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.files.file_readers import transactions_residue
from sinkproof.subject.scratch import fresh_folder

JOB = {"form": "jsonl", "counted": True, "interval_ms": 50, "batch_rows": 500, "pace_ms": 20}  # 50,000 rows/s
ROUND_SECONDS = 120.0
SAMPLE_SECONDS = 2.0
REPORT_EVERY_SECONDS = 10.0
PAUSE_SECONDS = 0.25  # in the mean, between a recovery and the next death
AGAIN = 0.25  # share of recoveries in which another process is killed
AGAIN_SECONDS = 0.08
DEATHS = {  # (kind, victim) -> how often, relative to the others
    ("kill", "attempt"): 50,
    ("kill", COORDINATOR): 15,
    ("kill-worker", "attempt"): 8,
    ("stop", "attempt"): 10,
    ("kill-job", "attempt"): 1,
    ("at any moment", "attempt"): 10,
    ("at any moment", COORDINATOR): 4,
    ("at any moment", "worker"): 2,
}


class Soak:
    def __init__(self, cluster: Cluster, *, seconds: float, seed: int, out: Path) -> None:
        self.cluster, self.seconds, self.seed, self.out = cluster, seconds, seed, out
        fingerprint()  # of the sources that run, before a user edits them
        self.random, self.began = Random(seed), now()
        self.sampled_at, self.reported_at = 0.0, now()
        self.samples: list[dict[str, int]] = []
        self.deaths: Counter[str] = Counter()
        self.victims: dict[int, str] = {}  # of this round, killed by us at any moment: pid -> what it was
        self.recoveries: list[float] = []
        self.rounds, self.rows, self.restarts, self.checkpoints = 0, 0, 0, 0
        self.wrong: list[str] = []

    @property
    def elapsed(self) -> float:
        return now() - self.began

    def run(self) -> None:
        while self.elapsed < self.seconds and not self.wrong:
            folder = fresh_folder()
            try:
                self.round(folder)
            except SparkFailed as error:
                self.wrong.append(f"round {self.rounds + 1} made no progress: {error}")
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            self.write()

    # -- one round ---------------------------------------------------------------------------------

    def round(self, folder: Path) -> None:
        self.victims.clear()
        run = Followed(self.cluster, folder, **JOB)
        run.warm_up()
        end = min(self.elapsed + ROUND_SECONDS, self.seconds)
        while self.elapsed < end:
            self.strike(run)
            run.recover()
            run.flow(self.random.expovariate(1 / PAUSE_SECONDS))
            self.sample()
            self.report(run)
        run.stop()
        self.count_round(run)

    def strike(self, run: Followed) -> None:
        (kind, victim), *_ = self.random.choices(list(DEATHS), list(DEATHS.values()))
        if kind == "at any moment":
            self.kill_one_of(victim)
        else:
            run.strike(kind, victim, self.random)
        if self.random.random() < AGAIN:
            run.flow(self.random.random() * AGAIN_SECONDS)
            self.kill_one_of(self.random.choice(["attempt", COORDINATOR, "worker"]))

    def kill_one_of(self, victim: str) -> None:
        """At any moment: also within a system call, and while the job recovers."""
        there = [pid for pid, role in roles(self.cluster).items() if role == victim]
        if there:
            pid = self.random.choice(there)
            self.victims[pid] = victim
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                del self.victims[pid]

    def count_round(self, run: Followed) -> None:
        """Deaths are counted from wait statuses."""
        ended = {each["child"]: each["status"] for each in run.events("ended")}
        for strike, _ in deaths(run.story):
            self.deaths[f"{_kind(strike)} {_victim(strike)}"] += 1
        self.deaths["stop attempt"] += sum(bool(each.get("zombie")) for each in run.events("ended"))
        self.deaths += Counter(
            f"kill {victim} at any moment" for pid, victim in self.victims.items() if ended.get(pid) == signal.SIGKILL
        )
        self.recoveries += run.recovery_ms()
        self.restarts += len(run.events("generation")) - 1
        self.checkpoints += len(run.events("complete"))
        lengths = run.lengths()
        self.rounds, self.rows = self.rounds + 1, self.rows + sum(lengths.values())
        problem = difference(run.target, lengths)
        residue = transactions_residue(RealDisk(run.target))
        if problem:
            self.wrong.append(f"round {self.rounds}: {problem}")
        if residue:
            self.wrong.append(f"round {self.rounds}: files of no transaction are left: {residue[:5]}")

    # -- reports -----------------------------------------------------------------------------------

    def sample(self) -> None:
        if self.elapsed - self.sampled_at >= SAMPLE_SECONDS:
            self.sampled_at = self.elapsed
            self.samples.append(sample(self.cluster))

    def report(self, run: Followed) -> None:
        if now() - self.reported_at >= REPORT_EVERY_SECONDS:
            self.reported_at = now()
            rows, megabytes = self.rows + run.rows, {role: size >> 20 for role, size in self.samples[-1].items()}
            left = f"{(self.seconds - self.elapsed) / 60:.1f} min left"
            say(f"{left}, {rows:,} rows, {run.strikes} struck in round {self.rounds + 1}, MB: {megabytes}")

    def summary(self) -> dict[str, Any]:
        memory = summary(self.samples)
        return {
            "schema": SCHEMA,
            "fingerprint": fingerprint(),
            "seed": self.seed,
            "hours": round(self.elapsed / 3600, 4),
            "rounds": self.rounds,
            "rows": self.rows,
            "exact": bool(self.rounds) and not self.wrong,
            "wrong": self.wrong,
            "deaths": dict(sorted(self.deaths.items())),
            "restarts": self.restarts,
            "checkpoints": self.checkpoints,
            "recovery_ms": {name: round(quantile(self.recoveries, of), 1) for name, of in QUANTILES.items()},
            "memory": memory,
            "memory_grown": grown(memory),
            "left": [],
        }

    def write(self, *, left: list[str] | None = None) -> dict[str, Any]:
        found = self.summary() | {"left": left or []}
        self.out.parent.mkdir(parents=True, exist_ok=True)
        partial = self.out.with_suffix(".partial")
        partial.write_text(json.dumps(found, indent=1) + "\n")
        os.replace(partial, self.out)
        return found


QUANTILES = {"p50": 0.5, "p95": 0.95, "most": 1.0}


def _kind(strike: dict[str, Any]) -> str:
    return str(strike["fault"]).rpartition("=")[2]


def _victim(strike: dict[str, Any]) -> str:
    return COORDINATOR if strike["actor"] == COORDINATOR else "attempt"


def difference(target: Path, lengths: dict[int, int]) -> str:
    """In a process of its own, so that its memory is freed."""
    command = [sys.executable, spark_rows.__file__, str(target), json.dumps(lengths)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def leftovers(folder: Path) -> list[str]:
    """Processes below us, and what is still in our scratch folders."""
    processes = [f"process {pid}" for pid in descendants(os.getpid(), parents_of_all())]
    return processes + [f"folder {path}" for path in folder.parent.glob(f"sinkproof-{os.getpid()}-*")]


def say(text: str) -> None:
    print(f"soak: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, help="instead of hours")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=SUMMARY)
    chosen = parser.parse_args()
    seconds = 3600 * chosen.hours if chosen.minutes is None else 60 * chosen.minutes
    with bench_cluster() as cluster:
        soak, home = Soak(cluster, seconds=seconds, seed=chosen.seed, out=chosen.out), cluster.folder
        try:
            soak.run()
        except KeyboardInterrupt:
            say("interrupted: what was done until the last whole round is in the summary")
    found = soak.write(left=leftovers(home))
    print(json.dumps(found, indent=1))
    say(f"the summary is in {chosen.out}")
    return 0 if found["exact"] and not found["memory_grown"] and not found["left"] else 1


if __name__ == "__main__":
    sys.exit(main())
