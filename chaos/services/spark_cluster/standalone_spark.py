"""A standalone Spark cluster on hosts in namespaces: the master on host 0, a worker on each of the others.

Clusters started here authenticate and encrypt: the secret is made for each, and is in a file of mode 0600 on every
host. The pages of master and workers cannot be turned off; no other machine reaches the bridge.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.optional_packages import install_command
from sinkproof.chaos.processes.parent_death import dying_with, reap_orphan
from sinkproof.chaos.processes.process_table import members_of
from sinkproof.chaos.services.jvm import find_java
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts

PORT: Final = 7077
LISTENS: Final = ":{:04X} [0:]+ 0A"  # of a port, in /proc/net/tcp and tcp6
SECONDS: Final = 90.0  # until the master listens; some on an idle machine
POLL_SECONDS: Final = 0.1
ORPHANS_SECONDS: Final = 5.0
SCALA: Final = "2.13"
MEMORY_MIB: Final = 384  # of each JVM: the rows are in Python processes
EXECUTOR_MIB: Final = 512  # Spark refuses less than 450
WORKER_MIB: Final = 1024
MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"
JAVA: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", f"-Xmx{MEMORY_MIB}m")
OPENED: Final = ("java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util", "sun.nio.ch")
LOST_SECONDS: Final = 6  # without a sign of life, until Spark gives up an executor; by default 120
WORK: Final = ("--work-dir", "/tmp/work")
HOSTS: Final = re.compile(r"cluster:(\d{1,2})")  # a --master: hosts of our own on this machine
DEFAULTS: Final = f"""\
spark.authenticate true
spark.authenticate.secret {{secret}}
spark.network.crypto.enabled true
spark.ui.enabled false
spark.master.rest.enabled false
spark.deploy.maxExecutorRetries -1
spark.executor.memory {EXECUTOR_MIB}m
spark.executor.heartbeatInterval 1s
spark.storage.blockManagerHeartbeatTimeoutMs {LOST_SECONDS}s
spark.network.timeoutInterval 1s
spark.executor.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData
"""
SETTINGS_FILE: Final = "spark-defaults.conf"
WRITE: Final = f'umask 077; mkdir -p "$1"; cat > "$1/{SETTINGS_FILE}"'


class StandaloneSpark:
    """A context manager. `folder`: logs and the settings of host 0; `shared`: what every host sees."""

    def __init__(
        self,
        workers: int,
        *,
        cores: int,
        folder: Path,
        shared: Sequence[Path],
        port: int = PORT,
        memory_mib: int = WORKER_MIB,
    ) -> None:
        """`cores` and `memory_mib`: of each worker; an executor takes half a GiB of that."""
        self.cores, self.folder, self.port, self.memory_mib = cores, folder, port, memory_mib
        self.hosts = NamespaceHosts(workers + 1, shared=shared)
        self.settings = DEFAULTS.format(secret=token_hex(32))
        self.running: dict[int, subprocess.Popen[bytes]] = {}  # by host
        self.sessions: set[int] = set()  # of what was running; their orphans are this process's, if it adopts some

    @classmethod
    def for_tasks(cls, tasks: int, *, hosts: int, folder: Path, shared: Sequence[Path]) -> StandaloneSpark:
        """One host is that of master and driver; each of the others has room for all tasks, once the rest are dead."""
        return cls(max(1, hosts - 1), cores=tasks, folder=folder, shared=shared)

    @property
    def slots(self) -> int:
        return self.cores * (self.hosts.count - 1)

    @property
    def master(self) -> str:
        return f"spark://{self.hosts.address(0)}:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Of a driver on host 0."""
        return {"SPARK_CONF_DIR": str(self._configuration(0)), "SPARK_LOCAL_IP": self.hosts.address(0)}

    def command(self, *arguments: str) -> list[str]:
        """For a driver: host 0."""
        return self.hosts.command(0, *arguments)

    def __enter__(self) -> StandaloneSpark:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.hosts.__enter__()
        try:
            self._start_master()
            for host in range(1, self.hosts.count):
                self.start_worker(host)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    @property
    def settings_file(self) -> Path:
        """Of host 0; it holds the secret, and only its owner can read it."""
        return self._configuration(0) / SETTINGS_FILE

    def _configuration(self, host: int) -> Path:
        return self.folder / "conf" if host == 0 else Path("/tmp/conf")

    def _start_master(self) -> None:
        self._start(0, MASTER_CLASS, "--host", self.hosts.address(0), "--port", str(self.port), "--webui-port", "0")
        deadline = Deadline(SECONDS)
        while not re.search(LISTENS.format(self.port), self._ports()):
            if deadline.over or self.running[0].poll() is not None:
                raise ServiceUnavailable(
                    "the master of Spark does not listen", evidence=self.log(0), next_step="See its log above"
                )
            threading.Event().wait(POLL_SECONDS)

    def _ports(self) -> str:
        network = Path(f"/proc/{self.hosts.holders[0].pid}/net")
        return "".join((network / kind).read_text() for kind in ("tcp", "tcp6") if (network / kind).exists())

    def start_worker(self, host: int) -> None:
        """Also on a host that was killed."""
        given = ("--cores", str(self.cores), "--memory", f"{self.memory_mib}m", "--webui-port", "0")
        self._start(host, WORKER_CLASS, "--host", self.hosts.address(host), *given, *WORK, self.master)

    def _start(self, host: int, main: str, *arguments: str) -> None:
        configuration = self._configuration(host)
        try:
            subprocess.run(
                self.hosts.command(host, "sh", "-c", WRITE, "sh", str(configuration)),
                input=self.settings.encode(),
                check=True,
                timeout=SECONDS,
            )
        except subprocess.SubprocessError as error:
            raise ServiceUnavailable(
                "the configuration of a host could not be written",
                evidence=str(error),
                next_step="Try again when this machine is less busy",
            ) from error
        home = spark_home()
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        files = f"-Djava.io.tmpdir={configuration}"  # unpacked libraries
        java = [find_java(), *JAVA, files, *opened, "-cp", f"{configuration}:{home / 'jars'}/*", main, *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": SCALA,
            "SPARK_CONF_DIR": str(configuration),
            "SPARK_LOCAL_IP": self.hosts.address(host),
            "PYSPARK_PYTHON": sys.executable,
        }
        with open(self.folder / f"host-{host}.log", "ab") as log:
            self.running[host] = subprocess.Popen(
                self.hosts.command(host, *dying_with(os.getpid(), *java)),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_host(self, host: int) -> list[int]:
        """Everything on it dies; returns what was killed. `revive` starts what Spark runs there."""
        killed = self.hosts.kill(host)
        if host in self.running:
            self._end(self.running.pop(host))
        return killed

    def revive(self, host: int) -> None:
        """A worker begins anew on a host that was killed; with the master of host 0, all workers do."""
        self._reap_orphans()
        if host:
            self.start_worker(host)
            return
        for worker in range(1, self.hosts.count):
            self.kill_host(worker)
        self._start_master()
        for worker in range(1, self.hosts.count):
            self.start_worker(worker)

    def log(self, host: int) -> str:
        """The last lines that master or worker have written."""
        return (self.folder / f"host-{host}.log").read_text(errors="replace")[-2000:]

    def close(self) -> None:
        self.hosts.close()
        for one in self.running.values():
            self._end(one)
        self.running.clear()
        self._reap_orphans()

    def _end(self, one: subprocess.Popen[bytes]) -> None:
        """Where the holder of a host has died, none of its processes are found."""
        one.kill()
        one.wait()
        self.sessions.add(one.pid)

    def _reap_orphans(self) -> None:
        """Python processes of executors end one by one, and what they leave behind with them; all are dead by now."""
        deadline = Deadline(ORPHANS_SECONDS)
        for session in self.sessions:
            for pid in members_of(session):
                reap_orphan(pid, deadline=deadline)
        self.sessions.clear()


def hosts_in(master: str) -> int:
    """How many hosts of our own a --master names; 0: it is a master of another kind."""
    match = HOSTS.fullmatch(master)
    return int(match[1]) if match else 0


def spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ServiceUnavailable(
            "PySpark is not installed", evidence="no module pyspark", next_step=f"Run: {install_command('spark')}"
        )
    return Path(found.origin).parent
