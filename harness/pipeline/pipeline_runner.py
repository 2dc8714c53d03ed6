"""A pipeline on Spark that people run: from where its folder's last command ended, to the end of the input or a stop.

Every command begins by claiming a generation: whatever an earlier one left running can decide nothing any more, and
what is the last complete checkpoint stays so. Rows count when a complete checkpoint covers them: such rows are visible,
or will be whatever dies.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.pipeline.file_recipes import COUNT, count_graph
from sinkproof.pipeline.output_folder import PipelineError, PipelineFolder
from sinkproof.pipeline.pipeline_progress import Line, Standing
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import DamagedCheckpoint
from sinkproof.reference_engine.checkpointing.restore_and_rescale import RestoreError, covered, refuse_another_graph
from sinkproof.reference_engine.dataflow.job_graph import Plan
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, Execution, SparkFailed

INPUT_ERROR: Final = "InputError: "  # as attempts name what they raise
COORDINATOR_EXITS_MOST: Final = 3  # by itself, not by a signal, before anything ran: the next one would do the same
WINDOW_SECONDS: Final = 2.0  # of the rate that progress shows


class Runnable(Protocol):
    """What is run. `job` says which job it is: a folder that belongs to another one is refused."""

    @property
    def job(self) -> Mapping[str, Any]: ...

    @property
    def recipe(self) -> str:
        """Of the deployment, as every process of the run makes it."""

    @property
    def network(self) -> str: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def bounded(self) -> bool:
        """Whether the input has an end."""

    @property
    def begun(self) -> int:
        """What offsets add up to before the first row; they need not begin at 0."""

    @property
    def total(self) -> int:
        """How many rows there are by now."""

    def arguments(self, folder: Path) -> Mapping[str, Any]:
        """Of the recipe."""

    def watched(self) -> AbstractContextManager[None]:
        """While it is open, `total` may grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Rows of files, or made-up ones, counted by key."""

    source: Input
    sink: str
    job: Mapping[str, Any]
    parallelism: int = 2
    interval_ms: int = 50
    pace_ms: int = 0  # between two batches of a source
    network: str = "unix"
    recipe: str = COUNT
    bounded: bool = True
    begun: int = 0

    @property
    def total(self) -> int:
        return sum(map(self.source.length, range(self.source.splits)))

    @property
    def plan(self) -> Plan:
        return count_graph(self.source, self.parallelism).plan()

    def arguments(self, folder: Path) -> Mapping[str, Any]:
        return {
            "source": self.source,
            "sink": self.sink,
            "folder": str(folder),
            "parallelism": self.parallelism,
            "interval_ms": self.interval_ms,
            "pace_ms": self.pace_ms,
        }

    def watched(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where a command goes on."""

    rows: int = 0  # that the last complete checkpoint covers
    checkpoint_id_stopped: int = 0  # it was the final one only because somebody had stopped the job
    over: bool = False  # nothing is left to be read, nor to be committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    state: str  # "complete": all rows are committed; "stopped": all that were read are, and the same command goes on
    rows: int  # committed by now
    rows_total: int
    rows_before: int  # committed by earlier commands
    seconds: float = 0.0  # from the first attempt to the end: without the start of Spark
    checkpoints: int = 0
    restarts: int = 0

    @property
    def rows_per_second(self) -> float:
        return (self.rows - self.rows_before) / self.seconds if self.seconds else 0.0


def prepare(pipeline: Runnable, folder: PipelineFolder) -> Beginning:
    """Says in the folder what job it belongs to, and finds where that goes on. Raises PipelineError."""
    folder.refuse_another(pipeline.job)
    storage = folder.storage
    storage.claim_generation()
    try:
        record = storage.latest()
        if record is not None:
            refuse_another_graph(pipeline.plan, record)
    except (DamagedCheckpoint, RestoreError) as error:
        raise PipelineError(str(error)) from error
    finished = folder.finished
    folder.clear()
    folder.keep({**pipeline.job, "finished": finished})
    rows = _rows(pipeline, record)
    if record is None or not record.final:
        return Beginning(rows=rows)
    if not pipeline.bounded or rows < pipeline.total:
        return Beginning(rows=rows, checkpoint_id_stopped=record.checkpoint_id)
    return Beginning(rows=rows, over=finished == record.checkpoint_id)


def run(
    pipeline: Runnable,
    folder: PipelineFolder,
    cluster: Cluster,
    *,
    beginning: Beginning,
    progress: Line,
    stop_wished: Callable[[], bool] = lambda: False,
) -> Outcome:
    """To the end, or to where the wish to stop has led. Raises PipelineError, SparkFailed."""
    tasks = len(pipeline.plan.subtasks)
    if cluster.slots < tasks:
        raise PipelineError(
            f"{cluster.master} offers {cluster.slots} slots, and the job has {tasks} tasks, which all run at "
            f"once: name a master with more, such as --master 'local[{tasks}]', or lower --parallelism"
        )
    wanted = SparkRun(
        recipe=pipeline.recipe,
        arguments=pipeline.arguments(folder.path),
        folder=folder.home,
        network=pipeline.network,
        checkpoint_id_stopped=beginning.checkpoint_id_stopped,
    )
    follower = Follower(
        cluster.begin(wanted, tasks=tasks),
        Standing(rows=beginning.rows, total=pipeline.total, endless=not pipeline.bounded),
        pipeline=pipeline,
        progress=progress,
    )
    try:
        with pipeline.watched():
            follower.follow(stop_wished)
    except BaseException:
        if cluster.process is not None:
            cluster.process.kill()  # nobody waits for an orderly end: what is not complete is read again
            cluster.close()
        raise
    return _outcome(pipeline, folder, follower, beginning=beginning)


def _rows(pipeline: Runnable, record: CheckpointRecord | None) -> int:
    """That the checkpoint covers."""
    return sum(covered(record).values()) - pipeline.begun if record is not None else 0


def _outcome(pipeline: Runnable, folder: PipelineFolder, follower: Follower, *, beginning: Beginning) -> Outcome:
    record = folder.storage.latest()
    if not follower.finished or record is None:
        why = follower.given_up or follower.execution.why or "nobody said why"
        raise SparkFailed(f"the job ended before its input did: {why}")
    folder.keep({**pipeline.job, "finished": record.checkpoint_id})
    rows, total = _rows(pipeline, record), pipeline.total
    return Outcome(
        state="complete" if pipeline.bounded and rows == total else "stopped",
        rows=rows,
        rows_total=total,
        rows_before=beginning.rows,
        seconds=max(0.0, follower.ended_at - follower.began_at),
        checkpoints=follower.standing.checkpoints,
        restarts=follower.standing.restarts,
    )


@dataclass(slots=True)
class Follower:
    """Keeps count of what the processes of the run tell, and shows it."""

    execution: Execution
    standing: Standing
    pipeline: Runnable = field(kw_only=True)
    progress: Line = field(kw_only=True)
    began_at: float = 0.0
    ended_at: float = 0.0
    finished: bool = False
    given_up: str = ""
    generations: int = 0
    coordinator_exits: int = 0  # in a row
    recent: deque[tuple[float, int]] = field(default_factory=deque)  # (when, rows by then)

    def follow(self, stop_wished: Callable[[], bool]) -> None:
        asked = False
        while not self.execution.over:
            for happening in self.execution.poll():
                self._hear(happening)
            if stop_wished() and not asked:
                asked = True
                self.standing.stopping = True
                self.execution.stop()
            self._show()

    def _hear(self, happening: Happening) -> None:
        heard = HEARD.get(str(happening["what"]))
        if heard is not None:
            heard(self, happening)

    def _show(self) -> None:
        at = now()
        self.recent.append((at, self.standing.rows))
        while self.recent[0][0] < at - WINDOW_SECONDS:
            self.recent.popleft()
        since, rows = self.recent[0]
        self.standing.rows_per_second = (self.standing.rows - rows) / (at - since) if at > since else 0.0
        self.standing.total = self.pipeline.total
        self.progress.show(self.standing)

    def _hear_generation(self, happening: Happening) -> None:
        self.began_at = self.began_at or happening["at"]
        self.generations += 1
        self.standing.restarts = self.generations - 1

    def _hear_running(self, _: Happening) -> None:
        self.coordinator_exits = 0

    def _hear_complete(self, happening: Happening) -> None:
        self.standing.checkpoints += 1
        self.standing.rows = happening["rows"] - self.pipeline.begun

    def _hear_finished(self, happening: Happening) -> None:
        self.finished, self.ended_at = True, happening["at"]

    def _hear_given_up(self, happening: Happening) -> None:
        self.given_up = happening["why"]

    def _hear_raised(self, happening: Happening) -> None:
        """The input's own words. Whatever is restarted would read the same again."""
        if str(happening["why"]).startswith(INPUT_ERROR):
            raise PipelineError(str(happening["why"]).removeprefix(INPUT_ERROR))

    def _hear_unable(self, happening: Happening) -> None:
        raise SparkFailed(f"a worker of Spark cannot make its part of the job: {happening['why']}")

    def _hear_ended(self, happening: Happening) -> None:
        if happening["actor"] != COORDINATOR or not happening["status"] or os.WIFSIGNALED(happening["status"]):
            return
        self.coordinator_exits += 1
        if self.coordinator_exits >= COORDINATOR_EXITS_MOST:
            raise SparkFailed(f"no coordinator can be started. They wrote: {self.execution.cluster.log}")


HEARD: Final[Mapping[str, Callable[[Follower, Happening], None]]] = {
    "complete": Follower._hear_complete,
    "ended": Follower._hear_ended,
    "finished": Follower._hear_finished,
    "generation": Follower._hear_generation,
    "given up": Follower._hear_given_up,
    "raised": Follower._hear_raised,
    "running": Follower._hear_running,
    "unable": Follower._hear_unable,
}
