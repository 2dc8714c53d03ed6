"""Keeps what must outlive a coordinator: its listening socket. Forks a new coordinator when one dies.

Forked by the driver before Spark starts, while the driver has one thread and no JVM. It runs nothing of the job itself.
"""

from __future__ import annotations

import os
import select
import socket
from itertools import count
from typing import Final

from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.chaos.shared.event_log import EventLog
from sinkproof.reference_engine.shells.spark.control_messages import Address, ControlConnection, address_of, listen
from sinkproof.reference_engine.shells.spark.coordinator_process import CoordinatorProcess
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.forked_attempts import ForkedProcess, fork
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder

FAILURES_MOST: Final = 3  # in a row; a death by a signal does not count: such deaths are expected


class CoordinatorParent:
    """`run` returns when the driver closes the connection."""

    def __init__(self, driver: ControlConnection) -> None:
        self.driver = driver
        self.listening: socket.socket | None = None
        self.child: ForkedProcess | None = None
        self.events: EventLog | None = None
        self.run_data: SparkRun | None = None
        self.numbers, self.failures = count(1), 0

    def run(self) -> None:
        while True:
            watched: list[ControlConnection | ForkedProcess] = [self.driver, *([self.child] if self.child else [])]
            ready = select.select(watched, [], [])[0]
            if self.child is not None and self.child in ready:
                self._reap()
            if self.driver in ready:
                messages = self.driver.receive()
                if messages is None:
                    self.clear()
                    return
                for message in messages:
                    getattr(self, message[0])(*message[1:])

    def begin(self, run: SparkRun) -> None:
        """Starts a coordinator for this run, and sends its address to the driver."""
        self.clear()
        self.failures = 0
        run.deployment()  # every coordinator inherits these imports
        self.run_data, self.events = run, RunFolder(run.folder).events()
        name = f"{run.folder.name}-coordinator-{os.getpid()}-{next(self.numbers)}"
        self.listening = listen(run.network, name, host=run.host)
        self._fork()
        self.driver.send("listening", address_of(self.listening))

    def _fork(self) -> None:
        run, listening = self.run_data, self.listening
        assert run is not None
        assert listening is not None
        self.child = fork(lambda: CoordinatorProcess(run, listening).run(), keep=[listening.fileno()])

    def _reap(self) -> None:
        assert self.child is not None
        assert self.events is not None
        status = self.child.reap()
        self.events.record("ended", actor=COORDINATOR, child=self.child.pid, status=status)
        self.child = None
        self.failures = self.failures + 1 if os.WIFEXITED(status) and status else 0
        if self.failures >= FAILURES_MOST:
            why = f"the coordinator failed {self.failures} times in a row; what it wrote stands in the driver's log"
            self.events.record("given up", why=why)
            self.clear()  # supervisors find no coordinator any more, and end
        elif status:
            self._fork()
        else:
            self.clear()  # the job is over: connections that wait are closed, and no process waits for an answer

    def clear(self) -> None:
        """Ends what is left of a run."""
        if self.child is not None:
            self.child.end()
            self.child = None
        if self.listening is not None:
            self.listening.close()
            self.listening = None


def fork_coordinator_parent() -> tuple[ForkedProcess, ControlConnection]:
    """The parent of coordinators, and the connection to it."""
    ours, its = socket.socketpair()
    child = fork(lambda: CoordinatorParent(ControlConnection(its)).run(), keep=[its.fileno()])
    its.close()
    return child, ControlConnection(ours)


def begin(parent: ControlConnection, run: SparkRun) -> Address:
    """The address of the coordinator of this run."""
    parent.send("begin", run)
    while (messages := parent.receive()) is not None:
        for message in messages:
            address: Address = message[1]
            return address
    raise ConnectionError("the parent of the coordinator has died")
