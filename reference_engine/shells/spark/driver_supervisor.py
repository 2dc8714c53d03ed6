"""Starts the driver as a process of its own, has it run jobs, follows them, and starts it again when it was killed.

Descendants of a dead driver become our children (a subreaper): their wait statuses are ours, and none is left behind.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.parent_death import adopt_orphans
from sinkproof.chaos.processes.process_table import members_of
from sinkproof.chaos.shared.event_log import EventLogReader, Happening
from sinkproof.reference_engine.shells.spark.control_messages import ControlConnection, Message
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_process import SETTINGS_FILE, WORKERS_FILE
from sinkproof.reference_engine.shells.spark.host_addresses import on_one_host
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.sink_adapters.protocol import nothing

MODULE: Final = "sinkproof.reference_engine.shells.spark.driver_process"
LOG: Final = "spark.log"
EXECUTORS_SECONDS: Final = 60.0  # until they have all registered; it takes two idle cores three
SLOTS_SECONDS: Final = 0.2  # between two looks at how many there are
START_SECONDS: Final = 90.0  # of the session; a cold machine needs twenty
STARTS_MOST: Final = 3  # of the driver, where it dies while it starts
STOP_SECONDS: Final = 10.0
DANGERS: Final = "what reaches its ports may run code as its users do, or read what it sends"
TICK_SECONDS: Final = 0.005  # how soon an event is noticed
LAST_EVENTS: Final = 8  # in a message about a run that stands still


class SparkFailed(Exception):
    """Spark, or the job on it, did not do what it must; the message says what was seen last."""


class TooFewSlots(SparkFailed):
    """All tasks of a job run at once; a master with fewer slots would keep it waiting for ever."""


class UnfitHosts(SparkFailed):
    """Hosts of the cluster lack what the job needs; nothing was started."""


class Cluster:
    """One driver with its session; a context manager. `folder` is for Spark's own files."""

    def __init__(
        self,
        *,
        folder: Path,
        master: str = "local[6,100000]",
        executors_seconds: float = EXECUTORS_SECONDS,
        say: Callable[[str], None] = nothing,
    ) -> None:
        """`executors_seconds`: how long executors are waited for; `say` hears of it."""
        self.folder, self.master = folder, master
        self.inside: Sequence[str] = ()
        self.environment: Mapping[str, str] = {}
        self.settings: Mapping[str, str] = {}  # of Spark, by the user
        self.executors_seconds, self.say = executors_seconds, say
        self.surveyed: set[Path] = set()  # folders that every host shares
        self.process: subprocess.Popen[bytes] | None = None
        self.commands: ControlConnection | None = None
        self.slots, self.jvm, self.slots_of_all = 0, 0, 0
        self.lacks = ""  # what the master lacks to keep strangers out
        self.statuses: dict[int, int] = {}  # of descendants that became ours, by pid
        self.answers: deque[Message] = deque()
        self.drivers = 0
        adopt_orphans()
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def be_on(self, master: str, *, inside: Sequence[str], environment: Mapping[str, str], slots: int = 0) -> None:
        """Before `start`. `inside`: the command that runs the driver on another host, with this environment added.
        `slots`: of all executors; runs begin when they are all there, so that each host has a part of the tasks.
        """
        self.master, self.inside, self.environment, self.slots_of_all = master, inside, environment, slots

    # -- the driver --------------------------------------------------------------------------------

    def start(self) -> None:
        """Raises SparkFailed with the driver's own words."""
        ours, its = socket.socketpair()
        if self.settings:
            with open(self.folder / SETTINGS_FILE, "w", opener=partial(os.open, mode=0o600)) as file:
                json.dump(dict(self.settings), file)
        driver = [sys.executable, "-m", MODULE, str(os.getpid()), str(its.fileno()), self.master, str(self.folder)]
        with open(self.folder / LOG, "ab", opener=partial(os.open, mode=0o600)) as log:
            self.process = subprocess.Popen(
                [*self.inside, *driver],
                env={**os.environ, **self.environment},
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        its.close()
        self.commands = ControlConnection(ours)
        self.drivers += 1
        answer = self._answer("ready", "failed", deadline=Deadline(START_SECONDS))
        if answer[0] == "failed":
            why = answer[1]
            self.close()
            raise SparkFailed(why)
        _, self.slots, self.jvm, lacks = answer
        if lacks and not self.lacks:
            self.lacks = f"{self.master} does not set {' and '.join(lacks)}: {DANGERS}"
            self.say(self.lacks)

    def start_again(self) -> None:
        """Its host may die once more meanwhile."""
        for left in reversed(range(STARTS_MOST)):
            try:
                self.start()
            except SparkFailed:
                self.close()
                if not left:
                    raise
            else:
                return

    @property
    def log(self) -> str:
        """The last lines that driver and JVM have written."""
        try:
            return (self.folder / LOG).read_text(errors="replace")[-2000:]
        except FileNotFoundError:
            return ""

    def _answer(self, *kinds: str, deadline: Deadline) -> Message:
        while True:
            for message in list(self.answers):
                if message[0] in kinds:
                    self.answers.remove(message)
                    return message
            if not self._receive(deadline.left) and not self.alive:
                raise SparkFailed(f"the driver ended while it was to answer {'/'.join(kinds)}. It wrote: {self.log}")
            if deadline.over:
                raise SparkFailed(f"the driver did not answer {'/'.join(kinds)} in time. It wrote: {self.log}")

    def _receive(self, seconds: float) -> bool:
        """Waits for a message of the driver; False if none came."""
        if self.commands is None or not select.select([self.commands], [], [], seconds)[0]:
            return False
        messages = self.commands.receive()
        self.answers += messages or ()
        if messages is None:
            self.commands.close()
            self.commands = None
        return messages is not None

    @property
    def alive(self) -> bool:
        return self.commands is not None

    def call(self, name: str, *arguments: Any, seconds: float = 120.0) -> Any:
        """The result of "module:function" in the driver, called with the session and these arguments."""
        if self.commands is None:
            self.start()
        assert self.commands is not None
        self.commands.send("call", name, arguments)
        _, result, why = self._answer("called", deadline=Deadline(seconds))
        if why:
            raise SparkFailed(why)
        return result

    def reap_driver(self) -> int:
        """The wait status of a driver that is gone, after everything that was below it is gone as well."""
        assert self.process is not None
        if self.commands is not None:
            self.commands.close()
            self.commands = None
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        status = self.process.wait()
        self.answers.clear()
        self._reap_session(self.process.pid)
        return -status if status < 0 else status << 8

    def _reap_session(self, session: int) -> None:
        """All processes that the driver has started are in its session, even if their parent has changed."""
        deadline = Deadline(STOP_SECONDS)
        while (left := members_of(session)) and not deadline.over:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            for pid in left:
                self._reap(pid)

    def _reap(self, pid: int) -> None:
        try:
            ended, status = os.waitpid(pid, 0)
        except ChildProcessError:
            return  # not a child of this process
        self.statuses[ended] = status

    def close(self) -> None:
        if self.process is not None:
            self.reap_driver()
            self.process = None

    # -- runs --------------------------------------------------------------------------------------

    def _wait_for_slots(self, tasks: int) -> None:
        waiting, said = Deadline(0.0 if self.master.startswith("local[") else self.executors_seconds), -1
        wanted = max(tasks, self.slots_of_all)
        while self.slots < wanted and self.commands is not None:
            self.commands.send("slots")
            self.slots = self._answer("slots", deadline=Deadline(START_SECONDS))[1]
            if self.slots >= wanted or waiting.over:
                break
            if self.slots != said:
                said = self.slots
                self.say(f"waiting for executors: {said} of {wanted} slots, for {waiting.left:.0f} s at most")
            select.select([self.commands], [], [], SLOTS_SECONDS)
        if self.slots < tasks:
            raise TooFewSlots(
                f"{self.master} offers {self.slots} slots, and the job has {tasks} tasks, which all run at once: "
                f"name a master with more, such as --master 'local[{tasks}]'"
            )

    def _survey(self, folder: Path) -> None:
        """Once for all runs below a folder; a Spark job takes a moment."""
        if folder.parent in self.surveyed:
            return
        RunFolder(folder)  # makes it
        if why := self.call("sinkproof.reference_engine.shells.spark.host_survey:survey", str(folder), self.slots):
            raise UnfitHosts(why)
        self.surveyed.add(folder.parent)

    def begin(self, run: SparkRun, *, tasks: int) -> Execution:
        """Submits the job. Raises SparkFailed if Spark has fewer slots than the job has tasks, or hosts are not fit."""
        if self.commands is None:
            self.start()
        self._wait_for_slots(tasks)
        if not on_one_host(self.master):
            self._survey(run.folder)
            run = replace(run, network="tcp")
        execution = Execution(self, run)
        execution.submit()
        return execution


class Execution:
    """One run, followed through its event logs; when its driver is killed, the next driver goes on with it."""

    def __init__(self, cluster: Cluster, run: SparkRun) -> None:
        self.cluster, self.run = cluster, run
        self.readers: list[EventLogReader] = [
            RunFolder(run.folder).events_reader(),
            EventLogReader(cluster.folder / WORKERS_FILE),
        ]
        self.readers[1].new()  # skips events of earlier runs
        self.over = False
        self.why = ""  # why Spark gave the job up
        self.recent: deque[Happening] = deque(maxlen=LAST_EVENTS)

    def submit(self) -> None:
        assert self.cluster.commands is not None
        self.cluster.commands.send("run", self.run)
        self.cluster._answer("running", deadline=Deadline(START_SECONDS))

    def happenings(self, *, seconds: float) -> Iterator[Happening]:
        """Every event of the logs, as it happens, until the run is over. Raises SparkFailed when it does not end within
        `seconds`, which begin anew with each driver: the start of Spark does not count.
        """
        deadline, driver = Deadline(seconds), self.cluster.drivers
        while not self.over:
            if deadline.over:
                raise SparkFailed(f"the run did not end in time. Last events: {list(self.recent)}")
            yield from self.poll()
            if self.cluster.drivers != driver:
                deadline, driver = Deadline(seconds), self.cluster.drivers

    def poll(self) -> list[Happening]:
        """New events; waits for a moment. After `over` nothing follows."""
        self.cluster._receive(TICK_SECONDS)
        for message in [message for message in self.cluster.answers if message[0] == "done"]:
            self.cluster.answers.remove(message)
            self.over, self.why = True, message[1]
        found = [happening for reader in self.readers for happening in reader.new()]
        if not self.cluster.alive:
            found.append(self._begin_again())
        if self.over:
            self.close()
        found.sort(key=lambda happening: float(happening["at"]))
        self.recent += found
        return found

    def _begin_again(self) -> Happening:
        pid = self.cluster.process.pid if self.cluster.process else 0
        jvm = self.cluster.jvm
        status = self.cluster.reap_driver()
        self.cluster.start_again()
        self.submit()
        at = now()
        jvm_status = self.cluster.statuses.get(jvm, -1)
        return {"what": "ended", "actor": "driver", "child": pid, "status": status, "jvm_status": jvm_status, "at": at}

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        self.readers.clear()

    def stop(self) -> None:
        """Requests the end of the job with a last checkpoint, of the coordinator or its successor."""
        RunFolder(self.run.folder).stop_wish.touch()
        if self.cluster.commands is not None:
            self.cluster.commands.send("stop")
