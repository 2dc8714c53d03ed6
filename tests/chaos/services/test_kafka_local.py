"""A real broker: it starts, dies, restarts with its data, pauses, stops, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.external_service import ExternalService
from sinkproof.chaos.services.jvm import Installation
from sinkproof.chaos.services.kafka.broker_readiness import request_metadata
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA, VERSION
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka, start_kafka
from sinkproof.chaos.services.local_service import WantedService
from sinkproof.chaos.services.ports import HOST, free_ports
from sinkproof.chaos.services.running_services import await_exit
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable

BRIEFLY = 0.3  # seconds in which a broker that runs would answer


@pytest.fixture
def broker(homes: Path, installation: Installation) -> Iterator[LocalKafka]:
    with KAFKA.use("local") as service:
        assert isinstance(service, LocalKafka)
        yield service


def topics(endpoint: str) -> set[str]:
    from confluent_kafka.admin import AdminClient

    found = AdminClient({"bootstrap.servers": endpoint}).list_topics(timeout=30).topics
    return {name for name in found if not name.startswith("__")}


def make_topic(endpoint: str, name: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": endpoint})
    made = admin.create_topics([NewTopic(name, 2)], operation_timeout=30)
    made[name].result(timeout=30)


def await_members(address: str, count: int) -> None:
    """Waits until this node lists so many brokers: the session of a dead one expires after 1.5 s."""
    deadline = Deadline(60)
    while (members := len(request_metadata(address, seconds=30).brokers)) != count and not deadline.over:
        await_exit(os.getpid(), 0.05)
    assert count == members


def test_a_killed_broker_restarts_with_its_data(broker: LocalKafka) -> None:
    make_topic(broker.endpoint, "kept")
    before = broker.pid(1)
    broker.kill()
    assert [] == broker.living()
    with pytest.raises(OSError, match="refused"):
        request_metadata(broker.endpoint, seconds=BRIEFLY)
    broker.start()
    assert before != broker.pid(1)
    assert {"kept"} == topics(broker.endpoint)
    assert "" == broker.died_by_itself()
    broker.restart()
    assert {"kept"} == topics(broker.endpoint)


def test_a_paused_broker_accepts_connections_and_does_not_reply(broker: LocalKafka) -> None:
    broker.pause()
    with pytest.raises(TimeoutError):
        request_metadata(broker.endpoint, seconds=BRIEFLY)
    broker.resume()
    assert 1 == len(request_metadata(broker.endpoint, seconds=30).brokers)
    broker.pause()
    broker.stop()
    assert [] == broker.living()


def test_an_unrequested_death_is_reported(broker: LocalKafka) -> None:
    os.kill(broker.pid(1), signal.SIGKILL)
    await_exit(broker.pid(1), 30.0)
    assert f"node-1 ended with status -{int(signal.SIGKILL)}" in broker.died_by_itself()
    broker.start()
    assert "" == broker.died_by_itself(), "a node that was started again is not dead"


def test_two_clusters_are_independent(broker: LocalKafka, installation: Installation) -> None:
    with start_kafka(installation, WantedService(), version=VERSION) as other:
        make_topic(other.endpoint, "mine")
        deadline = Deadline(20)  # a broker lists a topic some time after the controller has made it
        while not topics(other.endpoint) and not deadline.over:
            await_exit(other.pid(1), 0.05)
        assert (set(), {"mine"}) == (topics(broker.endpoint), topics(other.endpoint))
        assert set() == set(broker.spec.nodes) & set(other.spec.nodes)
    assert [1] == broker.living()


@pytest.mark.longer
def test_three_nodes_go_on_without_one(homes: Path, installation: Installation) -> None:
    wanted = WantedService(nodes=3)
    with KAFKA.use("local", wanted=wanted) as service:
        addresses = service.direct_endpoint.split(",")
        await_members(addresses[0], 3)
        make_topic(service.endpoint, "before")
        service.kill(node=2)
        await_members(addresses[0], 2)
        make_topic(f"{addresses[0]},{addresses[2]}", "during")
        service.start(node=2)
        assert {"before", "during"} == topics(addresses[1])
        with pytest.raises(ServiceUnavailable, match="there is no node 4"):
            service.kill(node=4)


def test_a_failed_start_gives_the_reason_and_leaves_nothing(homes: Path, installation: Installation) -> None:
    wanted = WantedService(settings={"num.io.threads": "-1"})
    with pytest.raises(ServiceFailed, match=r"num\.io\.threads"):
        start_kafka(installation, wanted, version=VERSION)
    assert [] == list(homes.iterdir())


def test_a_port_in_use_is_refused_by_number(homes: Path, installation: Installation) -> None:
    [port] = free_ports(1, taken=())
    with socket.create_server((HOST, port)), pytest.raises(ServiceUnavailable, match=f"port {port} is in use"):
        start_kafka(installation, WantedService(port=port), version=VERSION)


def test_nothing_is_left_of_a_broker_after_its_owner_was_killed(
    homes: Path, installation: Installation, assert_gone: Callable[[Path], None]
) -> None:
    program = (
        "import signal\nfrom sinkproof.chaos.services.kafka.kafka_jars import KAFKA\n"
        "with KAFKA.use('local') as service:\n"
        "    print(service.pid(1), service.folder, flush=True)\n    signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        owner.kill()
    await_exit(int(pid), 30.0)
    assert_gone(Path(folder))


def test_an_external_broker_is_used_and_never_injected_with_faults(
    broker: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINKPROOF_KAFKA", f"external:{broker.endpoint}")
    with KAFKA.use("") as service:
        assert isinstance(service, ExternalService)
        assert broker.endpoint == service.endpoint
        assert 1 == service.node_count
        for fault in ("kill", "stop", "pause", "resume", "restart", "start"):
            with pytest.raises(ServiceUnavailable, match="it is external"):
                getattr(service, fault)()
        assert "" == service.died_by_itself()
        broker.kill()
        assert "no Kafka answers" in service.died_by_itself()


@pytest.mark.parametrize("where", ["somewhere", "external:", "external"])
def test_a_malformed_location_is_refused(where: str) -> None:
    with pytest.raises(ServiceUnavailable, match="names no Kafka"), KAFKA.use(where):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "nonsense", "127.0.0.1:x"])
def test_an_address_without_a_broker_is_refused(address: str) -> None:
    with pytest.raises(ServiceUnavailable, match="no Kafka answers"), KAFKA.use(f"external:{address}"):
        pass


def test_a_server_with_another_protocol_is_no_broker() -> None:
    with socket.create_server((HOST, 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"HTTP/1.1 400 Bad Request")

        other = threading.Thread(target=answer)
        other.start()
        with pytest.raises(OSError, match="does not speak the Kafka protocol"):
            request_metadata(f"{HOST}:{server.getsockname()[1]}", seconds=30)
        other.join()
