"""The driver of a real streaming query that calls a foreachBatch function; a process of its own, because it is killed.

It takes orders over one socket:

("run", faults, passed)  one run of the query; `passed`: how often each point was passed before. The driver sends
                         ("passed", point, batch) and ("injected", kind, line) meanwhile, and in the end
                         ("ended", observation, lines)
end of the stream        stops the session and ends

Before the first order it sends ("ready",) or ("refused", why, whether the subject is at fault). At a fault it kills its
JVM and itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sinkproof.chaos.error_text import describe_error
from sinkproof.chaos.lines import LineTracer, line_on_stack
from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.chaos.processes.process_wide_state import stay_in_subjects_state
from sinkproof.chaos.schedule import Fault
from sinkproof.foreach_batch.certifying_query import (
    AFTER_COMMIT,
    BATCHES,
    BEFORE_BATCH,
    BEFORE_COMMIT,
    LOSE,
    endless_frame,
)
from sinkproof.foreach_batch.outside_points import outside_points
from sinkproof.foreach_batch.simulated_batches import read
from sinkproof.foreach_batch.traced_workers import workers_find
from sinkproof.judging.oracle import Observation
from sinkproof.reference_engine.shells.spark.control_messages import ControlConnection
from sinkproof.reference_engine.shells.spark.spark_session import start_session, stop_session
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT: Final = "checkpoint"
SPARK: Final = "spark"


class StreamingDriver:
    def __init__(self, contract: Contract, scratch: Scratch, orders: ControlConnection) -> None:
        self.contract, self.scratch, self.orders = contract, scratch, orders
        self.checkpoint = scratch.path.parent / CHECKPOINT
        self.session: SparkSession = start_session(
            folder=scratch.path.parent / SPARK, here=scratch.path, settings=workers_find(contract.given.files)
        )
        self.tracer = LineTracer(contract.given.files)
        self.faults: tuple[Fault, ...] = ()
        self.passed: Counter[str] = Counter()
        self.batch, self.failure = 0, ""
        self.commits = 0  # commits/N for which AFTER_COMMIT was reached

    def serve(self) -> None:
        self.orders.send("ready")
        while (messages := self.orders.receive()) is not None:
            for _, faults, passed in messages:
                self._run(faults, passed)

    def _run(self, faults: tuple[Fault, ...], passed: Counter[str]) -> None:
        self.faults, self.passed, self.failure = faults, passed, ""
        self.commits = self._batches_committed()
        while self._batches_committed() < BATCHES and not self.failure:
            self._run_some()
        ending = Observation(failure=self.failure)
        ending.committed = read(self.contract, self.scratch, ending)
        self.orders.send("ended", ending, self.tracer.known())

    def _run_some(self) -> None:
        """The batch without commits/N, if there is one; and one more."""
        writer = endless_frame(self.session).writeStream.foreachBatch(self._call).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            query.awaitTermination()
        except Exception as error:  # the border to Spark, which wraps the function's error
            self.failure = self.failure or f"the query failed: {describe_error(error, {})}"
            return
        self._reach_commits()

    def _reach_commits(self) -> None:
        """Spark does not report that commits/N is written: checked when a batch begins or the query has ended."""
        while self.commits < min(self._batches_committed(), BATCHES):
            self.commits += 1
            self.reach(AFTER_COMMIT)

    def _call(self, frame: DataFrame, batch: int) -> None:
        self._reach_commits()
        self.batch = batch
        if batch >= BATCHES:
            return  # the source is endless; the certified batches are done
        self.reach(BEFORE_BATCH)
        try:
            with (
                outside_points(self.scratch.path, self.reach, files=self.contract.given.files),
                self.tracer(self.reach),
            ):
                self.contract.given.write_batch(frame, batch)
        except Exception as error:
            self.failure = f"with batch {batch} the function raised {describe_error(error, self.contract.given.files)}"
            raise
        self.reach(BEFORE_COMMIT)

    def _batches_committed(self) -> int:
        folder = self.checkpoint / "commits"
        names = os.listdir(folder) if folder.is_dir() else []
        return 1 + max((int(name) for name in names if name.isdigit()), default=-1)

    def reach(self, point: str) -> None:
        self.passed[point] += 1
        self.orders.send("passed", point, self.batch)
        if not self.faults or (point, self.passed[point]) != (self.faults[0].point, self.faults[0].occurrence):
            return
        fault, *rest = self.faults
        self.faults = tuple(rest)
        self.orders.send("injected", fault.kind, line_on_stack(self.contract.given.files))
        if fault.kind == LOSE:
            self._lose_last_commit()
        else:
            self._die()

    def _lose_last_commit(self) -> None:
        """Between two queries: this one has ended, and the next one starts without the file."""
        last = self._batches_committed() - 1
        self.commits = last
        for name in (str(last), f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def _die(self) -> NoReturn:
        gateway: Any = self.session.sparkContext._gateway
        os.kill(gateway.proc.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("SIGKILL cannot be survived")


def main() -> None:
    """Arguments: parent's pid, descriptor of the socket, the subject, the scratch folder, options of services."""
    parent, descriptor, place, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(descriptor, False)
    orders = ControlConnection(socket.socket(fileno=descriptor))
    os.chdir(path)
    try:
        contract = load(place)
        services = ServicesInUse(options=ServiceOptions(**json.loads(sys.argv[5])))
        scratch = Scratch(name=f"{contract.name}-spark", path=path, shell="spark", services=services)
        driver = StreamingDriver(contract, scratch, orders)
    except Exception as error:  # the border of the process
        orders.send("refused", str(error), isinstance(error, ContractError))
        raise SystemExit(1) from error
    stay_in_subjects_state()
    driver.serve()
    stop_session(driver.session)


if __name__ == "__main__":
    main()
