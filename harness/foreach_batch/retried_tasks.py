"""A task of Spark that has done its work, and dies before Spark knows: Spark runs it again, within the same job. Tasks
also show the clock that the driver does.

Spark starts this module in place of `pyspark.daemon` (`spark.python.daemon.module`); workers are forked from it. What a
worker has to say is held until its task has ended. While a file is there, the first task to end removes it, and dies.
"""

from __future__ import annotations

import ast
import io
import json
import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.wall_clock import WallClock

MODULE: Final = "sinkproof.foreach_batch.retried_tasks"
VARIABLE: Final = "SINKPROOF_TASK_DIES"
CLOCK: Final = "clock-of-workers"  # the note beside that file
TRIES: Final = 4  # each task has so many, as Spark has it outside of local mode
MASTER: Final = f"local[2,{TRIES}]"
IN_PYTHON: Final = frozenset(  # what runs a user's Python code in tasks
    {
        *("foreach", "foreachPartition", "map", "flatMap", "mapPartitions", "mapPartitionsWithIndex", "filter"),
        *("mapInPandas", "mapInArrow", "applyInPandas", "applyInArrow", "udf", "pandas_udf", "rdd", "reduce"),
    }
)


def settings(file: Path) -> dict[str, str]:
    """Of a session in which a task dies while the file is there."""
    return {"spark.python.daemon.module": MODULE, f"spark.executorEnv.{VARIABLE}": str(file)}


def has_tasks_in_python(files: Collection[str]) -> bool:
    """Whether a name in these files may run Python code in tasks of Spark."""
    nodes = (node for path in files for node in ast.walk(ast.parse(Path(path).read_bytes())))
    return any(getattr(node, "attr", getattr(node, "id", "")) in IN_PYTHON for node in nodes)


@contextmanager
def clock_of_workers(file: Path | None, clock: WallClock, seconds: float) -> Iterator[None]:
    """Tasks that begin within the block show what the driver does. `file`: as for `settings`; None: of no session."""
    if file is None:
        yield
        return
    note = file.with_name(CLOCK)
    note.write_text(json.dumps([clock.start + seconds, clock.zone]))
    try:
        yield
    finally:
        note.unlink()


def main() -> None:
    from pyspark import daemon

    serve = daemon.worker

    def serve_holding_output(*connection: Any) -> Any:
        from pyspark import worker  # after the fork: it may start threads

        if not isinstance(worker.main, partial):  # this process may have run a task before
            worker.main = partial(_run_task, worker.main)
        return serve(*connection)

    setattr(daemon, "worker", serve_holding_output)  # noqa: B010 - it is typed as a function of its own
    daemon.manager()


def _run_task(run: Callable[[Any, Any], None], infile: Any, outfile: Any) -> None:
    """A task that fails by itself says so at once. A worker that is used again comes here when its last task ends."""
    held, has_ended = io.BytesIO(), False
    infile.peek(1)  # waits for a task
    try:
        with _clock_of_driver():
            run(infile, held)
        has_ended = True
    finally:
        if has_ended:
            _die_if_told()
        with suppress(BrokenPipeError):  # Spark has ended the task
            outfile.write(held.getvalue())
            outfile.flush()


@contextmanager
def _clock_of_driver() -> Iterator[None]:
    note = Path(os.environ.get(VARIABLE, "")).parent / CLOCK
    if not note.exists():
        yield
        return
    from sinkproof.chaos.moved_clock import MovedClock

    start, zone = json.loads(note.read_text())
    moved = MovedClock(WallClock(start=start, zone=zone), 0.0)
    try:
        yield
    finally:
        moved.stop()


def _die_if_told() -> None:
    try:
        os.unlink(os.environ.get(VARIABLE, ""))
    except OSError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
