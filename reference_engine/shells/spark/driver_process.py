"""The driver: a process of its own, so that it can be killed with its JVM. It takes orders over one socket.

("run", SparkRun)       starts the Spark job: one task per subtask; answers ("running",), later ("done", why)
("call", name, args)    `name` ("module:function") with the session and the arguments; answers ("called", result, why)
end of the stream       stops the session and ends
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.processes.child_channel import resolve
from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.reference_engine.shells.spark.control_messages import ControlConnection, control_connection
from sinkproof.reference_engine.shells.spark.coordinator_parent import begin, fork_coordinator_parent
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.host_addresses import (
    await_listener,
    master_address,
    on_one_host,
    own_address,
)
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reference_engine.shells.spark.task_supervisor import supervise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAEMON: Final = "sinkproof.reference_engine.shells.spark.python_worker_daemon"
WORKERS_LOG: Final = "SINKPROOF_WORKERS_LOG"  # environment: the file in which the daemon records how workers ended
WORKERS_FILE: Final = "workers"
JVM_DIES_SECONDS: Final = 0.5  # from its first sign of death until there is a wait status
SETTINGS_FILE: Final = "settings.json"  # in it, and not among the arguments: settings may hold secrets
RETRIES: Final = 100_000  # a killed worker is an ordinary event here; Spark gives up after four by default


SETTINGS: Final = {"spark.python.daemon.module": DAEMON, "spark.task.maxFailures": str(RETRIES)}


def _given(folder: Path) -> dict[str, str]:
    """By the user."""
    file = folder / SETTINGS_FILE
    return dict(json.loads(file.read_text())) if file.exists() else {}


class SparkDriver:
    def __init__(self, commands: ControlConnection, *, master: str, folder: Path) -> None:
        self.commands, self.master = commands, master
        _, self.coordinator_parent_commands = fork_coordinator_parent()  # before Spark: one thread, no JVM
        from sinkproof.reference_engine.shells.spark.spark_session import start_session

        os.environ[WORKERS_LOG] = log = str(folder / WORKERS_FILE)
        await_listener(master_address(master))
        settings = {**_given(folder), **SETTINGS, f"spark.executorEnv.{WORKERS_LOG}": log}
        self.session = start_session(master=master, folder=folder, settings=settings)
        self.run: SparkRun | None = None
        self.is_local = master.startswith("local[")
        self.lock = threading.Lock()  # two threads answer
        self.jvm, self.closing = os.pidfd_open(self._jvm_pid()), False
        threading.Thread(target=self._die_with_jvm, daemon=True).start()

    def serve(self) -> None:
        lacks = () if on_one_host(self.master) else lacking(dict(self.session.sparkContext.getConf().getAll()))
        self._answer("ready", slots_of(self.session, is_local=self.is_local), self._jvm_pid(), lacks)
        while (messages := self.commands.receive()) is not None:
            for message in messages:
                getattr(self, "do_" + message[0])(*message[1:])

    def _jvm_pid(self) -> int:
        return int(self.session.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]

    def _die_with_jvm(self) -> None:
        """Without its JVM a driver is nothing; our parent starts another one."""
        select.select([self.jvm], [], [])
        if not self.closing:
            os._exit(1)

    def _answer(self, *message: Any) -> None:
        with self.lock:
            self.commands.send(*message)

    def do_run(self, run: SparkRun) -> None:
        RunFolder(run.folder).processes.write_text(str(os.getpid()))
        subtasks = run.deployment().job.widest.subtasks
        tasks, parts = len(subtasks), Counter(subtask.name.partition("[")[0] for subtask in subtasks)
        title = f"{run.title or run.recipe} ({', '.join(f'{count} {name}' for name, count in parts.items())})"
        if not on_one_host(self.master):
            run = replace(run, host=own_address(master_address(self.master)))
        self.run = run = replace(run, coordinator=begin(self.coordinator_parent_commands, run))
        threading.Thread(target=self._job, args=(run, tasks, title), daemon=True).start()
        self._answer("running")

    def _job(self, run: SparkRun, tasks: int, title: str) -> None:
        context = self.session.sparkContext
        try:
            context.setJobDescription(title)
            slots = context.parallelize(range(tasks), tasks)
            slots.mapPartitionsWithIndex(lambda index, _: supervise(index, run)).collect()
        except Exception as error:  # the border: any failure of Spark is reported as text
            if not select.select([self.jvm], [], [], JVM_DIES_SECONDS)[
                0
            ]:  # else this process is about to die with the JVM
                self._answer("done", str(error)[-2000:])
        else:
            self._answer("done", "")

    def do_slots(self) -> None:
        self._answer("slots", slots_of(self.session, is_local=self.is_local))

    def do_stop(self) -> None:
        """Makes the coordinator check whether the run is to stop. A new coordinator checks by itself."""
        assert self.run is not None
        try:
            connection = control_connection(self.run.coordinator, self.run.secret, destination=0)
        except OSError:
            return
        connection.send("stop")
        connection.close()

    def do_call(self, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            result, why = resolve(name)(self.session, *arguments), ""
        except Exception as error:  # the border, as above
            result, why = None, f"{type(error).__name__}: {error}"[-2000:]
        self._answer("called", result, why)

    def close(self) -> None:
        from sinkproof.reference_engine.shells.spark.spark_session import stop_session

        self.closing = True
        self.coordinator_parent_commands.close()
        stop_session(self.session)


def lacking(settings: Mapping[str, str]) -> tuple[str, ...]:
    """What a master of several hosts does not do to keep strangers out."""
    is_set = {name for name, value in settings.items() if value == "true"}
    wanted = [("spark.authenticate",), ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")]
    return tuple(names[0] for names in wanted if is_set.isdisjoint(names))


def slots_of(session: SparkSession, *, is_local: bool) -> int:
    """How many tasks can run at once by now; executors on other hosts, or in other processes, register one by one.

    `defaultParallelism` is 2 where none has. What Spark checks before it starts a barrier stage is exact.
    """
    if is_local:
        return session.sparkContext.defaultParallelism
    context: Any = session.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def main() -> None:
    """Arguments: parent's pid, descriptor of the command socket, master, folder."""
    parent, descriptor, master, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    commands = ControlConnection(socket.socket(fileno=descriptor))
    try:
        driver = SparkDriver(commands, master=master, folder=folder)
    except Exception as error:  # the border of the process
        commands.send("failed", f"{type(error).__name__}: {error}")
        raise SystemExit(1) from error
    try:
        driver.serve()
    finally:
        driver.close()


if __name__ == "__main__":
    main()
