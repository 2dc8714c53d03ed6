"""`services start spark-cluster`: a cluster of hosts that stays, and leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.process_table import parents_of_all
from sinkproof.chaos.services.running_services import ServiceHandle, await_exit, running, sweep_dead_services
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.host_commands import HostCommands
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.chaos.services.spark_cluster.standing_cluster import (
    NAME,
    LocalSparkCluster,
    standing_cluster,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
Command = Callable[..., subprocess.Popen[str]]
MASTER = "spark://198.18.0.1:7077"
SECONDS = 60.0


@pytest.fixture
def command(homes: Path, tmp_path: Path, command_environment: dict[str, str]) -> Iterator[Command]:
    """Runs sinkproof with the folders of this test. Skips where no hosts can be made."""
    try:
        with NamespaceHosts(1, shared=[]):
            pass
    except ServiceUnavailable as unavailable:
        pytest.skip(" ".join(str(unavailable).split()))

    def run(*arguments: str) -> subprocess.Popen[str]:
        chosen = {**os.environ, "PATH": command_environment["PATH"]}
        line = [sys.executable, "-m", "sinkproof", *arguments]
        return subprocess.Popen(
            line, cwd=tmp_path, env=chosen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    yield run
    for entry in running(NAME):
        ServiceHandle(entry).end()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def await_that(reached: Callable[[], bool]) -> None:
    deadline = Deadline(SECONDS)
    while not reached():
        assert not deadline.over
        await_exit(os.getpid(), 0.05)


def network_of(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def in_networks(networks: set[str]) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if network_of(pid) in networks]


@pytest.mark.parametrize("end", ["stop", pytest.param("daemon is killed", marks=pytest.mark.longer)])
def test_a_cluster_stays_until_it_is_ended_and_leaves_nothing(command: Command, end: str) -> None:
    links = os.listdir("/sys/class/net")
    status, out, err = ended(command("services", "start", NAME, "--nodes", "2"))
    assert (0, f"{MASTER}\n") == (status, out), err
    known = standing_cluster(MASTER)
    assert known is not None
    settings = Path(known.settings)
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert f"{settings} (mode 0600)" in err
    assert f"--master {MASTER}" in err
    (secret,) = [line.split()[1] for line in settings.read_text().splitlines() if "authenticate.secret" in line]
    networks = {network_of(pid) for pid in known.pids}
    assert 2 == len(networks)
    everything = in_networks(networks)
    assert len(everything) >= 4  # two that hold hosts, a master, a worker
    assert not any(secret in words_of(pid) for pid in everything)
    assert secret not in err
    (row,) = json.loads(ended(command("services", "status", "--json"))[1])
    assert (NAME, MASTER, 2, 0) == (row["kind"], row["endpoint"], row["nodes"], row["owner"])
    assert secret not in json.dumps(row)
    assert "runs already" in ended(command("services", "start", NAME, "--nodes", "2"))[2]
    if end == "stop":
        assert f"{NAME} at {MASTER} is stopped" in ended(command("services", "stop"))[2]
        assert [] == in_networks(networks)
    else:
        os.kill(parents_of_all()[row["living"]["1"]], signal.SIGKILL)
        await_that(lambda: not in_networks(networks))
        sweep_dead_services()  # as the next command does
    assert [] == running(NAME)
    assert not settings.exists()
    assert not [line for line in Path("/proc/self/mounts").read_text().splitlines() if row["folder"] in line]
    assert links == os.listdir("/sys/class/net")
    with pytest.raises(ServiceUnavailable, match=f"services start {NAME}"):
        standing_cluster(MASTER)


def test_a_start_that_is_killed_leaves_nothing(command: Command) -> None:
    starting = command("services", "start", NAME)
    await_that(lambda: bool(running(NAME)))
    (entry,) = running(NAME)
    assert entry.owner == starting.pid
    service = LocalSparkCluster.attach(entry)
    await_that(lambda: bool(service.living()))
    keeper = service.pid(1)
    await_that(lambda: len(_networks_below(keeper)) >= 2)  # the switch and a host
    networks = _networks_below(keeper)
    starting.kill()
    ended(starting)
    await_that(lambda: not in_networks(networks) and not Path(entry.folder).exists())
    assert [] == running(NAME)


def _networks_below(keeper: int) -> set[str]:
    """Of its children; one that has just ended has none."""
    return {network_of(pid) for pid in _children_of(keeper)} - {network_of("self"), ""}


def _children_of(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


@pytest.mark.longer
def test_what_dies_on_a_host_is_started_again(command: Command) -> None:
    assert 0 == ended(command("services", "start", NAME, "--nodes", "2"))[0]
    known = standing_cluster(MASTER)
    assert known is not None
    for host in (1, 0):
        before = known.hosts.kill(host)
        assert before
        await_that(partial(_serves, known.hosts, host))


def _serves(hosts: HostCommands, host: int) -> bool:
    """Whether a master or worker runs there."""
    return any("deploy" in words_of(pid) for pid in hosts.processes(host))


@pytest.mark.parametrize(("arguments", "why"), [(("--nodes", "1"), "two hosts at least")])
def test_a_cluster_that_cannot_be_is_refused(command: Command, arguments: tuple[str, ...], why: str) -> None:
    status, out, err = ended(command("services", "start", NAME, *arguments))
    assert (3, "") == (status, out)
    assert why in err
    assert [] == running(NAME)
