"""`services start spark-cluster`: a cluster of hosts on this machine that stays, and that several commands use.

One process keeps it: the parent of all that holds hosts and runs on them. It dies with the daemon of the service, and
everything else with it. Commands find the cluster by its master's address, and enter the host of the driver.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.services.cache_folders import made, running_folder
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.jvm import find_java
from sinkproof.chaos.services.local_service import (
    DEATH_SECONDS,
    PORTS,
    LocalService,
    ServiceNode,
    WantedService,
    started,
)
from sinkproof.chaos.services.running_services import await_exit, running
from sinkproof.chaos.services.service import Progress, ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.host_commands import NETWORK, HostCommands
from sinkproof.chaos.services.spark_cluster.standalone_spark import PORT, StandaloneSpark, spark_home

NAME: Final = "spark-cluster"
HOSTS: Final = 3
# Each worker offers as many as all tasks of several commands need at once: they wait more than they compute.
CORES: Final = 64
CORES_MOST: Final = "spark.cores.max"  # a setting of one driver, which else takes all
MEMORY_MIB: Final = 8192  # what the executors of each worker may have, not what they take
KEEPER: Final = f"from {__name__} import keep; keep()"
FACTS: Final = "cluster.json"  # in the service's folder, once the cluster is complete
LOOK_SECONDS: Final = 0.5  # between two looks at what runs on the hosts
SHARED: Final = "shared"  # in the details of the entry: folders that all hosts see
SCRATCH: Final = "scratch"  # in the service's folder: the one that each cluster shares


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCluster:
    """What any process of this user needs to use it. `settings`: the file with the secret."""

    master: str
    settings: str
    pids: Sequence[int]  # that hold the hosts
    as_user: bool
    scratch: str  # a folder that all hosts see

    @property
    def hosts(self) -> HostCommands:
        return HostCommands(len(self.pids), pids=self.pids, as_user=self.as_user)

    @property
    def inside(self) -> list[str]:
        """The beginning of a driver's command: its host is the first."""
        return self.hosts.command(0)

    @property
    def environment(self) -> Mapping[str, str]:
        """Of a driver."""
        return {"SPARK_CONF_DIR": str(Path(self.settings).parent), "SPARK_LOCAL_IP": self.hosts.address(0)}

    def slots(self, tasks: int) -> int:
        """For a job with so many tasks: each host has room for all of them, once the rest are dead."""
        return tasks * (len(self.pids) - 1)


class LocalSparkCluster(LocalService):
    """Its only process is the one that keeps the hosts."""

    name = NAME
    title = "Spark cluster"

    @property
    def nodes(self) -> Sequence[ServiceNode]:
        (port,) = self.entry.details[PORTS]
        return [ServiceNode(host=HostCommands(1).address(0), port=port)]

    @property
    def endpoint(self) -> str:
        return f"spark://{self.nodes[0].address}"

    @property
    def node_count(self) -> int:
        return int(self.entry.details["hosts"])

    @property
    def version(self) -> str:
        return str(self.entry.details["version"])

    @property
    def known(self) -> KnownCluster | None:
        """None: it is not complete, or has ended."""
        try:
            facts = json.loads((self.folder / FACTS).read_text())
        except FileNotFoundError:
            return None
        return KnownCluster(**facts) if self.living() else None

    def prepare(self) -> None:
        made(self.folder / SCRATCH)

    def command(self, node: ServiceNode) -> list[str]:
        shared = [str(self.folder / SCRATCH), *self.entry.details[SHARED]]
        given = json.dumps({"port": node.port, "hosts": self.node_count, "shared": shared})
        return [sys.executable, "-P", "-c", KEEPER, str(self.folder), given]

    def is_ready(self, node: ServiceNode) -> bool:
        return (self.folder / FACTS).exists()

    def end(self) -> None:
        """Returns when nothing runs on its hosts: they die of the keeper's death, and not all at once."""
        known = self.known
        left = [] if known is None else known.hosts.everything()
        super().end()
        for pid in left:
            await_exit(pid, DEATH_SECONDS)

    def how_to_use(self) -> Sequence[str]:
        """Lines for the user."""
        if self.known is None:
            return ()
        return (
            f"run and certify use it with --master {self.endpoint}",
            f"settings of its drivers, with its secret: {self.known.settings} (mode 0600)",
        )


def keep() -> None:
    """The process. Arguments: the service's folder, and what the cluster is like. Ends by a signal, or with its daemon.

    What ends by itself on a host is started there again.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder, given = Path(sys.argv[1]), json.loads(sys.argv[2])
    spark = StandaloneSpark(
        given["hosts"] - 1,
        cores=CORES,
        folder=folder / "spark",
        shared=list(map(Path, given["shared"])),
        port=given["port"],
        memory_mib=MEMORY_MIB,
    )
    with spark:
        known = KnownCluster(
            master=spark.master,
            settings=str(spark.settings_file),
            pids=[spark.hosts.pid(host) for host in range(spark.hosts.count)],
            as_user=spark.hosts.as_user,
            scratch=str(folder / SCRATCH),
        )
        (folder / f"{FACTS}.new").write_text(json.dumps(asdict(known)))
        os.rename(folder / f"{FACTS}.new", folder / FACTS)
        while True:
            signal.sigtimedwait((), LOOK_SECONDS)
            _start_what_has_ended(spark)


def _start_what_has_ended(spark: StandaloneSpark) -> None:
    for host in [host for host, process in spark.running.items() if process.poll() is not None]:
        if host:  # drivers outlive the master
            spark.kill_host(host)
        spark.revive(host)


def standing_cluster(master: str) -> KnownCluster | None:
    """The cluster of `services start` with this master; None: another kind of master. Raises ServiceUnavailable."""
    if not master.startswith(f"spark://{NETWORK}"):
        return None
    services = [LocalSparkCluster.attach(entry) for entry in running(NAME) if not entry.owner]
    known = next((service.known for service in services if service.endpoint == master), None)
    if known is None:
        raise ServiceUnavailable(
            f"there is no Spark cluster at {master}",
            evidence=f"running: {', '.join(service.endpoint for service in services) or 'none'}",
            next_step=f"Run: sinkproof services start {NAME}",
        )
    return known


def installed_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def install(wanted: str, *, progress: Progress) -> str:
    """Nothing is fetched: PySpark holds all that a cluster needs. Returns its version."""
    spark_home()
    find_java()
    if wanted != (found := installed_version()):
        raise ServiceUnavailable(
            f"a cluster of Spark {wanted} cannot be started",
            evidence=f"PySpark {found} is installed",
            next_step="Leave out the version",
        )
    return wanted


def start_cluster(_: str, wanted: WantedService, *, version: str) -> LocalSparkCluster:
    if wanted.nodes < 2:
        raise ServiceUnavailable(
            "a cluster has two hosts at least",
            evidence=f"{wanted.nodes} was named",
            next_step="Name 2 to 9 with --nodes: the first is that of the master and of drivers",
        )
    seen = dict.fromkeys(map(str, (*wanted.shared, running_folder(), Path.cwd(), *filter(os.path.isdir, sys.path))))
    details = {"version": version, "hosts": wanted.nodes, SHARED: [*seen], PORTS: [wanted.port or PORT]}
    return started(LocalSparkCluster, wanted, lambda: details)


def count_nodes(address: str) -> int:
    raise ValueError(f"how many hosts {address} has is not known")


SPARK_CLUSTER: Final[Kind[Any]] = Kind(
    service=LocalSparkCluster,
    version=installed_version(),
    nodes=HOSTS,
    install=install,
    start=start_cluster,
    count_nodes=count_nodes,
    made_of="packages",
    is_installed=lambda version: bool(version) and version == installed_version(),
)
