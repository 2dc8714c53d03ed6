"""The processes of a Spark job on hosts in namespaces, without Spark: for tests that need hosts, and no JVM.

Stands where a `Cluster` and its `StandaloneSpark` stand. The driver's host runs the parent of coordinators; each task
is a process that supervises one subtask. The task of a host that has died, or is cut off, begins again on another one.
"""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.parent_death import adopt_orphans
from sinkproof.chaos.services.spark_cluster.namespace_hosts import CUT, NamespaceHosts
from sinkproof.chaos.shared.event_log import EventLogReader, Happening
from sinkproof.execution.host_faults import ClusterHosts
from sinkproof.reference_engine.shells.spark.control_messages import Address
from sinkproof.reference_engine.shells.spark.coordinator_parent import begin, fork_coordinator_parent
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import SparkFailed
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reference_engine.shells.spark.task_supervisor import supervise

SILENCE_SECONDS: Final = 1
LOST_SECONDS: Final = 1.5  # a little more: the job itself has given up the host by then
TICK_SECONDS: Final = 0.01
DRIVER: Final = "from tests.support.tasks_on_hosts import drive; drive()"
TASK: Final = "from tests.support.tasks_on_hosts import be_task; be_task()"
ROOT: Final = Path(__file__).parents[2]


def given() -> SparkRun:
    """What is in the first line of the standard input."""
    run: SparkRun = pickle.loads(base64.b64decode(sys.stdin.readline()))
    return run


def drive() -> None:
    """Says where the coordinator listens; ends with its standard input."""
    run = given()
    _, parent = fork_coordinator_parent()
    print(base64.b64encode(pickle.dumps(begin(parent, run))).decode(), flush=True)
    sys.stdin.readline()


def be_task() -> None:
    run = given()
    supervise(int(sys.argv[1]), run)


class CutHosts(NamespaceHosts):
    """Remembers which of them cannot be reached, and for how long."""

    def __enter__(self) -> CutHosts:
        self.lost: dict[int, Deadline] = {}
        super().__enter__()
        return self

    def cut(self, host: int, *, how: str = CUT) -> None:
        super().cut(host, how=how)
        self.lost[host] = Deadline(LOST_SECONDS)

    def heal(self, host: int) -> None:
        super().heal(host)
        self.lost.pop(host, None)


class TasksOnHosts:
    """A context manager, in place of a `Cluster`."""

    lacks = ""

    def __init__(self, hosts: CutHosts, *, folder: Path) -> None:
        self.hosts, self.folder, self.slots, self.of_driver = hosts, folder, 0, 0
        self.driver: subprocess.Popen[str] | None = None
        self.tasks: dict[int, tuple[int, subprocess.Popen[str]]] = {}  # index -> host, process
        self.all: list[subprocess.Popen[str]] = []
        adopt_orphans()

    def __enter__(self) -> TasksOnHosts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def begin(self, run: SparkRun, *, tasks: int) -> Execution:
        self.close()
        run = replace(run, network="tcp", host=self.hosts.address(self.of_driver))
        self.driver = self._start(self.of_driver, DRIVER)
        self._hand_over(self.driver, run)
        assert self.driver.stdout is not None
        address: Address = pickle.loads(base64.b64decode(self.driver.stdout.readline()))
        run = replace(run, coordinator=address)
        for index in range(tasks):
            self.start_task(run, index, 1 + index % (self.hosts.count - 1))
        return Execution(self, run)

    def start_task(self, run: SparkRun, index: int, host: int) -> None:
        process = self._start(host, TASK, str(index))
        self._hand_over(process, run)
        self.tasks[index] = host, process

    def _start(self, host: int, program: str, *arguments: str) -> subprocess.Popen[str]:
        with open(self.folder / "processes.log", "ab") as log:
            process = subprocess.Popen(
                self.hosts.command(host, "setpriv", "--pdeathsig", "KILL", sys.executable, "-c", program, *arguments),
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.all.append(process)
        return process

    @staticmethod
    def _hand_over(process: subprocess.Popen[str], run: SparkRun) -> None:
        assert process.stdin is not None
        process.stdin.write(base64.b64encode(pickle.dumps(run)).decode() + "\n")
        process.stdin.flush()

    def close(self) -> None:
        for process in self.all:
            process.kill()
        for process in self.all:
            process.communicate()
        self.all.clear()
        self.tasks.clear()

    # -- in place of a StandaloneSpark -------------------------------------------------------------

    def kill_host(self, host: int) -> list[int]:
        return self.hosts.kill(host)

    def revive(self, host: int) -> None:
        """Tasks are started when a run begins."""


class Execution:
    def __init__(self, cluster: TasksOnHosts, run: SparkRun) -> None:
        self.cluster, self.run, self.why = cluster, run, ""
        self.reader: EventLogReader = RunFolder(run.folder).events_reader()

    def happenings(self, *, seconds: float) -> Iterator[Happening]:
        deadline = Deadline(seconds)
        over = False
        while not over:
            over = all(process.poll() == 0 for _, process in self.cluster.tasks.values())
            yield from self.reader.new()
            self._begin_again()
            if deadline.over:
                log = (self.cluster.folder / "processes.log").read_text(errors="replace")[-3000:]
                raise SparkFailed(f"the run did not end in time. It wrote: {log}")
            if not over:
                select_tick(self.cluster)
        self.reader.close()

    def _begin_again(self) -> None:
        """The tasks of hosts that have died, or cannot be reached."""
        hosts, tasks = self.cluster.hosts, self.cluster.tasks
        lost = {host for host, process in tasks.values() if process.poll() not in (None, 0)}
        lost |= {host for host, waits in hosts.lost.items() if waits.over}
        rest = [host for host in range(1, hosts.count) if host not in lost]
        for index, (host, _) in list(tasks.items()):
            if host in lost and rest:
                self.cluster.start_task(self.run, index, rest[0])


def hosts_of(cluster: TasksOnHosts, relays: object) -> ClusterHosts:
    return ClusterHosts(spark=cluster, relays=relays, silence_seconds=SILENCE_SECONDS)  # type: ignore[arg-type]


def select_tick(cluster: TasksOnHosts) -> None:
    first = next(iter(cluster.tasks.values()))[1]
    try:
        first.wait(TICK_SECONDS)
    except subprocess.TimeoutExpired:
        return
