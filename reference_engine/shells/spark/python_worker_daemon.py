"""The process from which Spark forks its Python workers, with everything imported that they need.

Spark's own daemon imports in each worker anew, and drops the wait statuses of dead workers; this one records them.
Started by the JVM as `python -m sinkproof.reference_engine.shells.spark.python_worker_daemon pyspark.worker`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import numpy  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.daemon
import pyspark.worker

import sinkproof.reference_engine.shells.spark.task_supervisor  # noqa: F401
from sinkproof.chaos.shared.event_log import EventLog
from sinkproof.reference_engine.shells.spark.driver_process import WORKERS_LOG


class Signals:
    """The module `signal` as pyspark.daemon sees it: dead workers are reaped by us instead of being ignored."""

    def __init__(self, log: EventLog | None) -> None:
        self.log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)

    def signal(self, number: int, handler: Any) -> Any:
        if number == signal.SIGCHLD and handler is signal.SIG_IGN:
            handler = self.reap
        return signal.signal(number, handler)

    def reap(self, number: int, frame: FrameType | None) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self.log is not None:
                self.log.record("ended", actor="worker", child=pid, status=status)


if __name__ == "__main__":
    path = os.environ.get(WORKERS_LOG)
    is_shared = path is not None and Path(path).parent.is_dir()  # on other hosts than the driver's it may be missing
    vars(pyspark.daemon)["signal"] = Signals(EventLog(Path(path)) if path is not None and is_shared else None)
    pyspark.daemon.manager()
