"""One run of a bench job on Spark, followed event by event: wait, inject a fault, stop, compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import spark_rows

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.schedule import COORDINATOR, Fault
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.chaos.shared.point_counts import read_counts
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, SparkFailed
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder

RECIPE = "spark_recipes:written"
WAIT_SECONDS = 300.0  # a new driver with its JVM takes five on an idle machine, and forty on a crowded one
WARM_SECONDS = 0.7
STRIKE_SECONDS = 0.5  # after which a step that is not passed is replaced by another one


class Followed:
    """A run under way. `rows`: of the last complete checkpoint; `story`: everything since it was last cleared."""

    def __init__(self, cluster: Cluster, folder: Path, **arguments: Any) -> None:
        self.target, self.arguments = folder / "target", {"folder": str(folder / "target"), **arguments}
        self.target.mkdir(parents=True)
        run = SparkRun(recipe=RECIPE, arguments=self.arguments, folder=folder / "run")
        self.names = run.deployment().job.widest.names
        self.folder = RunFolder(run.folder)
        self.armed = self.folder.armed()
        self.cluster = cluster
        self.story: list[Happening] = []
        self.rows, self.strikes = 0, 0
        self.steps: dict[str, list[str]] = {}  # actor -> those that it passes again and again in one life
        self.execution = cluster.begin(run, tasks=len(self.names) - 1)

    def until(self, reached: Callable[[], bool], *, seconds: float = WAIT_SECONDS) -> None:
        """Raises SparkFailed if that does not happen in time."""
        deadline = Deadline(seconds)
        while not reached():
            self.poll()
            if self.execution.over and not reached():
                raise SparkFailed(f"the run ended by itself: {self.execution.why or list(self.execution.recent)}")
            if deadline.over:
                raise SparkFailed(f"no progress in {seconds:.0f} s; last events: {list(self.execution.recent)}")

    def poll(self) -> None:
        for happening in self.execution.poll():
            self.story.append(happening)
            self.strikes += happening["what"] == "struck"
            if happening["what"] == "complete":
                self.rows = max(self.rows, happening["rows"])

    def warm_up(self) -> None:
        """Lets it run for a moment when the first rows are committed, and learns its steps."""
        self.until(lambda: self.rows > 0)
        actors = (COORDINATOR, *self.names[1:])
        before = {actor: read_counts(self.folder.counts_path(actor)) for actor in actors}
        self.flow(WARM_SECONDS)
        for actor, counts in before.items():
            passed = read_counts(self.folder.counts_path(actor)) - counts
            self.steps[actor] = [point for point, times in passed.items() if times > 1]

    def flow(self, seconds: float) -> None:
        """Lets it run for so long."""
        deadline = Deadline(seconds)
        self.until(lambda: deadline.over, seconds=seconds + WAIT_SECONDS)

    def events(self, what: str) -> list[Happening]:
        return [each for each in self.story if each["what"] == what]

    def stop(self) -> None:
        """With a checkpoint; returns when it is over."""
        self.execution.stop()
        self.until(lambda: self.execution.over)

    def lengths(self) -> dict[int, int]:
        """Split -> how many of its rows the last complete checkpoint covers."""
        return covered(FolderCheckpointStorage(self.folder.checkpoints).latest())

    def difference(self) -> str:
        """What is wrong with the committed rows of a run that is over; "" if nothing is."""
        return spark_rows.difference(self.target, self.lengths(), counted=self.arguments["counted"])

    # -- deaths ------------------------------------------------------------------------------------

    def strike(self, kind: str, victim: str, random: Random) -> None:
        """Injects a fault at a random step that is passed again and again in one life; returns when it was injected."""
        struck = self.strikes
        patience = Deadline(0.0)

        def should_stop() -> bool:
            return self.strikes > struck or patience.over

        while self.strikes == struck:
            actor = COORDINATOR if victim == COORDINATOR else random.choice(self.names[1:])
            point = random.choice(self.steps[actor])
            counts = read_counts(self.folder.counts_path(actor))
            self.armed.arm([Fault(actor, point, counts[point] + 1, kind)])
            patience = Deadline(STRIKE_SECONDS)
            self.until(should_stop)

    def recover(self) -> None:
        """Returns when a checkpoint with more rows than ever before is complete."""
        before = self.rows
        self.until(lambda: self.rows > before)

    def recovery_ms(self) -> list[float]:
        """From each injection to the next complete checkpoint of a later generation."""
        found, struck_at, generation = [], 0.0, 0
        for each in self.story:
            if each["what"] == "struck":
                struck_at = struck_at or each["at"]
            elif each["what"] == "generation":
                generation = each["at"]
            elif each["what"] == "complete" and struck_at and generation > struck_at:
                found.append(1000 * (each["at"] - struck_at))
                struck_at = 0.0
        return found


def cycles(followed: Followed, kind: str, victim: str, *, times: int, seed: int) -> dict[str, float]:
    """`times` deaths one after another: how many a minute, and ms to the next complete checkpoint."""
    random = Random(seed)
    followed.story.clear()
    began = now()
    for _ in range(times):
        followed.strike(kind, victim, random)
        followed.recover()
    per_minute = 60 * times / (now() - began)
    waited = followed.recovery_ms()
    return {"per_minute": per_minute, "p50": quantile(waited, 0.5), "p95": quantile(waited, 0.95)}


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
