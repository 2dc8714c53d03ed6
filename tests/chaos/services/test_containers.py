"""Services in containers, on an engine that the tests start themselves. Without an engine the tests are skipped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra, supports_clients
from sinkproof.chaos.services.choose_service import EVERYWHERE
from sinkproof.chaos.services.container_nodes import LABEL, engine, engine_version
from sinkproof.chaos.services.jvm import find_java
from sinkproof.chaos.services.running_services import CONTAINED, new_service
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.chaos.services.service_daemon import DEATH_SECONDS
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY
from sinkproof.subject.cassandra_service import CassandraService

from .engine import NoEngine, engine_of_our_own

TABLE = "CREATE TABLE IF NOT EXISTS {ks}.kept (a int PRIMARY KEY)"


@pytest.fixture
def some_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine of the test itself; where none may be started, the one that runs on this machine."""
    with ExitStack() as until_the_end:
        try:
            monkeypatch.setenv("DOCKER_HOST", until_the_end.enter_context(engine_of_our_own()))
        except NoEngine as error:
            try:
                engine_version()
            except ServiceUnavailable as unavailable:
                pytest.skip(f"{error}; {unavailable}")
        yield


def containers() -> list[str]:
    """The images of all sinkproof containers in the engine."""
    with engine() as docker:
        return [each.image.tags[0] for each in docker.containers.list(all=True, filters={"label": LABEL})]


@pytest.mark.slow
@pytest.mark.longer
def test_a_broker_in_a_container_is_killed_and_nothing_is_left_of_a_killed_daemon(
    some_engine: None, homes: Path
) -> None:
    """One test, so that pytest's workers do not each start an engine and build the images."""
    check_that_a_broker_is_killed_within_a_commit()
    check_that_containers_of_a_killed_daemon_are_removed()


@pytest.mark.longer
def test_a_killed_node_in_a_container_restarts_with_its_data(some_engine: None, homes: Path) -> None:
    with CASSANDRA.use("container") as service:
        assert isinstance(service, LocalCassandra)
        cassandra = CassandraService(
            endpoint=service.endpoint, direct_endpoint=service.endpoint, identity=service.identity
        )
        cassandra.make_keyspace("mine", tables=[TABLE])
        assert [service.image] == containers()
        assert service.image.startswith("sinkproof/cassandra:")
        service.pause()
        assert not supports_clients(service.endpoint)
        service.kill()  # a paused node
        assert ([], "") == (service.living(), service.died_by_itself())
        service.start()
        service.pause()
        service.resume()
        tables = cassandra.read("system_schema", "SELECT table_name FROM {ks}.tables WHERE keyspace_name = ?", ["mine"])
        assert [("kept",)] == tables
        with engine() as docker:
            docker.containers.list(filters={"label": LABEL})[0].kill()
        assert "ended with status -9" in service.died_by_itself()
    assert [] == containers()


def check_that_a_broker_is_killed_within_a_commit() -> None:
    schedule = "sink[0].commit.after#1=service-kill"
    command = ["replay", schedule, "kafka/two-phase", "--on", "process", "--services", "container"]
    done = subprocess.run(
        [sys.executable, "-m", "sinkproof", *command], capture_output=True, text=True, env=os.environ, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "24 rows committed; upheld" in done.stdout
    assert "commit.after: service-kill" in done.stdout
    with engine() as docker:
        assert any(tag.startswith("sinkproof/kafka:") for each in docker.images.list() for tag in each.tags)
    assert [] == containers()


def check_that_containers_of_a_killed_daemon_are_removed() -> None:
    java = os.path.realpath(find_java())
    with engine() as docker:
        [image] = [tag for each in docker.images.list() for tag in each.tags if tag.startswith("sinkproof/java:")]
    handle = new_service("cassandra", {CONTAINED: True}, owner=os.getpid())
    handle.spawn("node-1", [java, "-version"], image=image)
    with pytest.raises(ServiceFailed, match="node-2 of cassandra cannot be started"):
        handle.spawn("node-2", ["/no/such/program"], image=image)
    assert handle.await_end("node-1", Deadline(DEATH_SECONDS))
    assert "Runtime Environment" in handle.last_output("node-1")
    assert handle.daemon is not None
    os.kill(handle.daemon.pid, signal.SIGKILL)
    handle.daemon.wait()
    assert [image] == containers()
    assert CASSANDRA.running() is None  # any listing removes the data of dead services
    assert [] == containers()
    assert not handle.folder.exists()


def test_a_kind_without_containers_runs_as_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOXIPROXY.variable, raising=False)
    monkeypatch.delenv(CASSANDRA.variable, raising=False)
    monkeypatch.setenv(EVERYWHERE, "container")
    assert ("", "container") == (TOXIPROXY.where_to_look(), CASSANDRA.where_to_look())


@pytest.mark.slow
def test_an_engine_that_does_not_reply_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error comes before any service is started; other commands need no engine."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    command = [sys.executable, "-m", "sinkproof"]
    refused = subprocess.run(
        [*command, "replay", "no-fault", "memory/plain", "--services", "container"], capture_output=True, text=True
    )
    assert (3, "") == (refused.returncode, refused.stdout)
    assert f"sinkproof: no container engine answers: unix://{tmp_path}/none.sock" in refused.stderr
    doctor = subprocess.run([*command, "doctor", "--json"], capture_output=True, text=True)
    [row] = [finding for finding in json.loads(doctor.stdout) if finding["name"] == "container engine"]
    assert "optional" == row["state"]
    assert "Only --services container needs one" in row["found"]
