"""The body of a Spark task: hosts the attempts of one actor, one at a time, and reports how each of them ended.

It holds the actor's listening socket, so that upstream attempts can connect before the next attempt is ready, and does
everything slow (imports, building the job) once, before it forks for the first time. It never runs the sink itself.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import threading
from collections import Counter
from functools import cache
from typing import Final

from sinkproof.chaos.schedule import example, parse
from sinkproof.reference_engine.dataflow.columns import MANY_KEYS, decode, encode, route
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.reference_engine.shells.spark.attempt_process import StartOrder, live
from sinkproof.reference_engine.shells.spark.buffered_attempt import attempt_for
from sinkproof.reference_engine.shells.spark.control_messages import (
    ControlConnection,
    address_of,
    control_connection,
    listen,
)
from sinkproof.reference_engine.shells.spark.deployment import Identity, SparkRun
from sinkproof.reference_engine.shells.spark.forked_attempts import ForkedProcess, fork
from sinkproof.reference_engine.shells.spark.host_addresses import LOOPBACK, own_address
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reference_engine.shells.spark.zombie_effects import record_change
from sinkproof.sink_adapters.protocol import Batch, Row

POLL_SECONDS: Final = 0.02  # between two checks for a stopped attempt; in production that is a heartbeat
ZOMBIE_SECONDS: Final = 2.0  # from its resumption until a zombie is killed that has not ended by itself
CLOSING_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.1
CANCELLING_SECONDS: Final = 0.2  # an attempt that was cancelled closes its sink, or is killed


def supervise(index: int, run: SparkRun) -> list[str]:
    """The task's body; returns when the job has finished, or was given up."""
    try:
        supervisor = Supervisor(index + 1, run)
    except Exception as error:  # the border of the task: Spark would retry for ever in silence
        RunFolder(run.folder).events().record("unable", task=index, why=f"{type(error).__name__}: {error}")
        raise
    try:
        supervisor.run()
    finally:  # also when Spark cancels the task: the worker lives on, and so would the attempts
        supervisor.clear()
    return [f"{supervisor.name} ended"]


class Supervisor:
    def __init__(self, actor: int, run: SparkRun) -> None:
        self.actor, self.run_data = actor, run
        self.deployment = run.deployment()
        if run.checkpoints and self.deployment.read_committed is not None:
            raise ValueError("zombies are judged by checkpoints in a folder: what forks reads no object store")
        self.plan = self.deployment.job.widest.subtasks[actor - 1]
        self.name = self.plan.name
        self.events = RunFolder(run.folder).events()
        self.listening: socket.socket | None = None
        if self.plan.inputs:
            host = own_address(run.coordinator) if isinstance(run.coordinator, tuple) else LOOPBACK
            self.listening = listen(run.network, f"{run.folder.name}-{actor}-{os.getpid()}", host=host)
        self.child: ForkedProcess | None = None
        self.generation = 0
        self.zombies: list[ForkedProcess] = []
        self.over = False
        warm_up()

    def run(self) -> None:
        while not self.over:
            coordinator = self._connected()
            if coordinator is None:
                return
            address = address_of(self.listening) if self.listening is not None else ""
            coordinator.send("supervisor", self.actor, address)
            self._follow(coordinator)
            if coordinator.refusal:
                self.events.record("refused", actor=self.name, why=coordinator.refusal)
            coordinator.close()

    def _connected(self) -> ControlConnection | None:
        """To the coordinator, or its successor; None if the job is over.

        The listening socket outlives every coordinator: where nothing listens, its parent is gone. A host that is cut
        off tries until it is healed, or until Spark gives this task to another host, and ends this one.
        """
        run = self.run_data
        while True:
            try:
                return control_connection(run.coordinator, run.secret, destination=0, silence=run.silence_seconds)
            except (ConnectionRefusedError, ConnectionAbortedError):
                return None
            except OSError:
                self._end_cut_off()
                threading.Event().wait(AGAIN_SECONDS)

    def _end_cut_off(self) -> None:
        """No coordinator can end the attempt: it must not go on, as its successor may run elsewhere."""
        if self.child is not None:
            self.child.end(grace_seconds=CANCELLING_SECONDS)
            self._reap(self.child)
            self.child = None

    def _follow(self, coordinator: ControlConnection) -> None:
        """Until the coordinator dies or everything is over."""
        while not self.over:
            watched: list[ControlConnection | ForkedProcess] = [coordinator, *([self.child] if self.child else [])]
            ready = select.select(watched, [], [], POLL_SECONDS)[0]
            if self.child is not None:
                self._supervise(self.child, coordinator, ended=self.child in ready)
            if coordinator in ready:
                messages = coordinator.receive()
                if messages is None:
                    return
                orders = [message for message in messages if message[0] == "start"]
                others = [message for message in messages if message[0] != "start"]
                for message in [*orders[-1:], *others]:  # of several, only the newest generation's is worth starting
                    getattr(self, message[0])(*message[1:])

    def _supervise(self, child: ForkedProcess, coordinator: ControlConnection, *, ended: bool) -> None:
        if not ended and child.stopped():
            self.zombies.append(child)
            self.child = None
            coordinator.send("ended", self.generation, "it does not answer")
        elif ended or child.status is not None:
            status = self._reap(child)
            self.child = None
            coordinator.send("ended", self.generation, f"its process ended with {describe_status(status)}")

    def _reap(self, child: ForkedProcess) -> int:
        status = child.reap()
        self.events.record("ended", actor=self.name, generation=self.generation, child=child.pid, status=status)
        return status

    # -- orders ------------------------------------------------------------------------------------

    def start(self, order: StartOrder) -> None:
        self.stop(order.generation)
        self.generation = order.generation
        keep = [self.listening.fileno()] if self.listening is not None else []
        run, deployment, listening = self.run_data, self.deployment, self.listening
        self.child = fork(lambda: live(attempt_for(run, deployment, order, listening=listening)), keep=keep)
        self.events.record("started", actor=self.name, generation=self.generation, child=self.child.pid)

    def stop(self, generation: int) -> None:
        """The attempt of an older generation ends here, if the death that ended its generation was not its own."""
        if self.child is not None and self.generation < generation:
            if self.child.stopped():
                self.zombies.append(self.child)
            else:
                self.child.end(grace_seconds=CANCELLING_SECONDS)
                self._reap(self.child)
            self.child = None

    def resume_zombies(self) -> None:
        """Zombies go on where they were stopped. They must change nothing in the committed view."""
        for zombie in self.zombies:
            before = self._read()
            os.kill(zombie.pid, signal.SIGCONT)
            self.events.record("woken", actor=self.name, child=zombie.pid)
            status = zombie.end(grace_seconds=ZOMBIE_SECONDS)
            self.events.record("ended", actor=self.name, child=zombie.pid, status=status, zombie=True)
            self._compare(before, self._read())
        self.zombies.clear()

    def _read(self) -> Counter[Identity] | None:
        rows = self.deployment.read_committed() if self.deployment.read_committed is not None else None
        return None if rows is None else Counter(rows)

    def _compare(self, before: Counter[Identity] | None, after: Counter[Identity] | None) -> None:
        if before is None or after is None:
            return
        folder, vanish = RunFolder(self.run_data.folder), self.deployment.rows_vanish
        record_change(folder, self.name, before=before, after=after, rows_vanish=vanish)

    def finish(self) -> None:
        """The attempt has received the order to close."""
        self.over = True
        self.resume_zombies()
        if self.child is not None:
            self.child.end(grace_seconds=CLOSING_SECONDS)
            self._reap(self.child)
            self.child = None

    def clear(self) -> None:
        for child in [*([self.child] if self.child else []), *self.zombies]:
            child.end()
        self.zombies.clear()
        self.child = None
        if self.listening is not None:
            self.listening.close()


@cache
def warm_up() -> None:
    """Attempts inherit what is compiled, cached and in memory: the first batch of one that does not takes 20 ms.

    Once per process, which Spark uses for one task after another.
    """
    parse(example())
    rows = [Row(0, number, f"k{number}", "") for number in range(MANY_KEYS)]
    for _, part in route(decode(encode(Batch(rows))), 2):
        KeyedCount().apply(part)
    gc.collect()
    gc.freeze()


def describe_status(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.waitstatus_to_exitcode(status)}"
