"""Runs a pipeline on Spark from where its folder's last command ended, to the end of the input or to a stop.

Every command first claims a generation, which fences processes that an earlier command left running. Rows count when a
complete checkpoint covers them: they are visible, or become visible whichever process dies.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from sinkproof.chaos.clock import now
from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.pipeline.file_recipes import COUNT, count_graph
from sinkproof.pipeline.output_folder import PipelineError, PipelineFolder
from sinkproof.pipeline.pipeline_progress import PipelineStatus, StatusLine
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import DamagedCheckpoint
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_store import UnfitStore
from sinkproof.reference_engine.checkpointing.restore_and_rescale import RestoreError, covered, refuse_another_graph
from sinkproof.reference_engine.dataflow.job_graph import Plan
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import (
    Cluster,
    Execution,
    SparkFailed,
    TooFewSlots,
    UnfitHosts,
)

INPUT_ERROR: Final = "InputError: "  # how attempts begin the message of such an error
# If so many exit before the job runs, and not by a signal, the next one would exit, too.
COORDINATOR_EXITS_MOST: Final = 3
WINDOW_SECONDS: Final = 2.0  # over which progress averages the rate


class Runnable(Protocol):
    """A pipeline. `job` identifies it: a folder that belongs to another job is refused."""

    @property
    def job(self) -> Mapping[str, Any]: ...

    @property
    def recipe(self) -> str:
        """The function from which every process of the run makes the deployment."""

    @property
    def plan(self) -> Plan: ...

    @property
    def bounded(self) -> bool:
        """Whether the input has an end."""

    @property
    def begun(self) -> int:
        """The sum of the offsets at which the splits begin; they need not begin at 0."""

    @property
    def total(self) -> int:
        """How many rows the input has by now."""

    @property
    def reads(self) -> Sequence[str]:
        """Folders, besides that of the job, that each process reads."""

    @property
    def services(self) -> Sequence[str]:
        """HOST:PORT of the external systems that each process connects to."""

    def arguments(self, folder: Path) -> Mapping[str, Any]:
        """The arguments of the recipe."""

    def watched(self) -> AbstractContextManager[None]:
        """While it is open, `total` may grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Counts rows of files, or generated rows, by key."""

    source: Input
    sink: str
    job: Mapping[str, Any]
    parallelism: int = 2
    interval_ms: int = 50
    pace_ms: int = 0  # between two batches of a source
    recipe: str = COUNT
    bounded: bool = True
    begun: int = 0
    services: Sequence[str] = ()

    @property
    def reads(self) -> Sequence[str]:
        return list(dict.fromkeys(os.path.dirname(os.path.abspath(each["path"])) for each in self.job.get("files", ())))

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
    """Where a command continues."""

    rows: int = 0  # covered by the last complete checkpoint
    checkpoint_id_stopped: int = 0  # final only because the job was stopped
    over: bool = False  # every row is committed


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOutcome:
    state: (
        str  # "complete": all rows are committed; "stopped": all rows read by then are, and the same command continues
    )
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
    """Writes the job into the folder, and finds where it continues. Raises PipelineError."""
    job = {**pipeline.job, **({"checkpoints": folder.checkpoints} if folder.checkpoints else {})}
    folder.refuse_another(job)
    storage = folder.storage()
    try:
        if isinstance(storage, ObjectCheckpointStorage):
            folder.refuse_another_at_url(job, storage)
        storage.claim_generation()
        record = storage.latest()
        if record is not None:
            refuse_another_graph(pipeline.plan, record)
    except (DamagedCheckpoint, RestoreError, UnfitStore) as error:
        raise PipelineError(str(error)) from error
    finished = folder.finished
    folder.clear()
    folder.keep({**job, "finished": finished})
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
    progress: StatusLine,
    stop_requested: Callable[[], bool] = lambda: False,
) -> PipelineOutcome:
    """Runs to the end of the input, or to the checkpoint of a stop. Raises PipelineError, SparkFailed."""
    tasks = len(pipeline.plan.subtasks)
    wanted = SparkRun(
        recipe=pipeline.recipe,
        arguments=pipeline.arguments(folder.path),
        folder=folder.home,
        checkpoint_id_stopped=beginning.checkpoint_id_stopped,
        checkpoints=folder.checkpoints,
        title=f"sinkproof run {pipeline.job['command']}: {folder.path}",
    )
    try:
        execution = cluster.begin(wanted, tasks=tasks)
    except TooFewSlots as error:
        raise PipelineError(f"{error}, or lower --parallelism") from error
    except UnfitHosts as error:
        raise PipelineError(str(error)) from error
    follower = Follower(
        execution,
        PipelineStatus(rows=beginning.rows, total=pipeline.total, endless=not pipeline.bounded),
        pipeline=pipeline,
        progress=progress,
    )
    try:
        with pipeline.watched():
            follower.follow(stop_requested)
    except BaseException:
        if cluster.process is not None:
            cluster.process.kill()  # no orderly end is needed: rows that no checkpoint covers are read again
            cluster.close()
        raise
    return _outcome(pipeline, folder, follower, beginning=beginning)


def _rows(pipeline: Runnable, record: CheckpointRecord | None) -> int:
    return sum(covered(record).values()) - pipeline.begun if record is not None else 0


def _outcome(
    pipeline: Runnable, folder: PipelineFolder, follower: Follower, *, beginning: Beginning
) -> PipelineOutcome:
    record = folder.storage().latest()
    if not follower.finished or record is None:
        why = follower.given_up or follower.execution.why or "no process reported why"
        raise SparkFailed(f"the job ended before its input did: {why}")
    folder.keep({**(folder.earlier() or {}), "finished": record.checkpoint_id})
    rows, total = _rows(pipeline, record), pipeline.total
    return PipelineOutcome(
        state="complete" if pipeline.bounded and rows == total else "stopped",
        rows=rows,
        rows_total=total,
        rows_before=beginning.rows,
        seconds=max(0.0, follower.ended_at - follower.began_at),
        checkpoints=follower.status.checkpoints,
        restarts=follower.status.restarts,
    )


@dataclass(slots=True)
class Follower:
    """Counts the events that the processes of the run report, and shows progress."""

    execution: Execution
    status: PipelineStatus
    pipeline: Runnable = field(kw_only=True)
    progress: StatusLine = field(kw_only=True)
    began_at: float = 0.0
    ended_at: float = 0.0
    finished: bool = False
    given_up: str = ""
    refused: bool = False
    coordinator_exits: int = 0  # one after the other
    recent: deque[tuple[float, int]] = field(default_factory=deque)  # (time, rows by then)

    def follow(self, stop_requested: Callable[[], bool]) -> None:
        stopping = False
        while not self.execution.over:
            for happening in self.execution.poll():
                self._handle(happening)
            if stop_requested() and not stopping:
                stopping = True
                self.status.stopping = True
                self.execution.stop()
            self._show()

    def _handle(self, happening: Happening) -> None:
        match happening["what"]:
            case "generation" if not self.began_at:
                self.began_at = happening["at"]
            case "generation":
                self.status.restarts += 1
            case "running":
                self.coordinator_exits = 0
            case "complete":
                self.status.checkpoints += 1
                self.progress.checkpoint(happening["at"] - happening["trigger"])
                self.status.rows = happening["rows"] - self.pipeline.begun
            case "refused" if not self.refused:
                self.refused = True
                self.progress.say(f"a connection was refused ({happening['why']}); the job goes on. All are in its log")
            case "finished":
                self.finished, self.ended_at = True, happening["at"]
            case "given up":
                self.given_up = happening["why"]
            case "raised" if str(happening["why"]).startswith(INPUT_ERROR):  # a restart would read it again
                raise PipelineError(str(happening["why"]).removeprefix(INPUT_ERROR))
            case "unable":
                raise SparkFailed(f"a worker of Spark cannot make its part of the job: {happening['why']}")
            case "ended" if happening["actor"] == COORDINATOR:
                self._note_coordinator_exit(happening["status"])

    def _note_coordinator_exit(self, status: int) -> None:
        if status and not os.WIFSIGNALED(status):
            self.coordinator_exits += 1
        if self.coordinator_exits >= COORDINATOR_EXITS_MOST:
            raise SparkFailed(f"no coordinator can be started. Its output: {self.execution.cluster.log}")

    def _show(self) -> None:
        at = now()
        self.recent.append((at, self.status.rows))
        while self.recent[0][0] < at - WINDOW_SECONDS:
            self.recent.popleft()
        since, rows = self.recent[0]
        self.status.rows_per_second = (self.status.rows - rows) / (at - since) if at > since else 0.0
        self.status.total = self.pipeline.total
        self.progress.show(self.status)
