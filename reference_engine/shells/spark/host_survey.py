"""Are the hosts of a cluster fit for a job? Tasks on all slots say what they see, before anything of the job starts."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sinkproof.chaos.clock import Deadline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS: Final = 60.0  # until every slot has started a Python worker
POLL_SECONDS: Final = 0.05
FAILURES_MOST: Final = 3  # of tasks; the session itself repeats them for ever


class Seen(NamedTuple):
    """What one task has seen."""

    host: str
    version: str  # of this package
    read: bool  # the driver's file
    wrote: bool  # a file of its own


def survey(session: SparkSession, folder: str, slots: int) -> str:
    """What keeps a job with this folder from running on the cluster; "" if nothing does. Runs in the driver."""
    name = f"survey-{os.getpid()}"
    asked = Path(folder, name)
    asked.touch()
    try:
        found, why = _ask(session, folder, name, slots=slots)
        arrived = {path.name for path in asked.parent.glob(f"{name}-*")}
    finally:
        for path in asked.parent.glob(f"{name}*"):
            path.unlink(missing_ok=True)
    return why or judge(found, folder=folder, ours=version("sinkproof"), arrived=arrived, name=name)


def judge(found: Sequence[Seen], *, folder: str, ours: str, arrived: set[str], name: str) -> str:
    for index, seen in enumerate(found):
        if seen.version != ours:
            return f"{seen.host} has sinkproof {seen.version}, and this host {ours}: install the same on every host"
        if not seen.read or not seen.wrote or f"{name}-{index}" not in arrived:
            return (
                f"{folder} is not shared with {seen.host}: checkpoints and output of a job on several hosts need a "
                f"folder that each of them reads and writes under the same path"
            )
    return ""


def look(index: int, folder: str, name: str) -> Seen:
    """Runs in a task."""
    read, wrote = Path(folder, name).exists(), False
    if read:
        try:
            Path(folder, f"{name}-{index}").touch()
            wrote = True
        except OSError:
            wrote = False
    return Seen(socket.gethostname(), version("sinkproof"), read, wrote)


def _ask(session: SparkSession, folder: str, name: str, *, slots: int) -> tuple[Sequence[Seen], str]:
    context, answers = session.sparkContext, list[Any]()

    def ask() -> None:
        try:
            numbers = context.parallelize(range(slots), slots)
            answers.append(numbers.mapPartitionsWithIndex(lambda at, _: [look(at, folder, name)]).collect())
        except Exception as error:  # the border: any failure of Spark is reported as text
            answers.append(f"{type(error).__name__}: {error}"[-1000:])

    threading.Thread(target=ask, daemon=True).start()
    deadline, tracker = Deadline(SECONDS), context.statusTracker()
    while not answers and not deadline.over:
        threading.Event().wait(POLL_SECONDS)
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if sum(stage.numFailedTasks for stage in stages if stage is not None) > FAILURES_MOST:
            break
    if not answers:
        context.cancelAllJobs()
        return (), (
            f"no Python worker of sinkproof {version('sinkproof')} answers on some executor: it has to be installed on "
            f"every host, for the interpreter {os.environ.get('PYSPARK_PYTHON', 'python3')}"
        )
    return ((), answers[0]) if isinstance(answers[0], str) else (answers[0], "")
