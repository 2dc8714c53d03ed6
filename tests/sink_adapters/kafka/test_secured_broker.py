"""A listener with TLS and SCRAM: pairs are judged as on a plain one, what is wrong is said, and no password is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkproof.canaries import kafka as canaries
from sinkproof.chaos.kafka_client.broker_connection import BrokerConnection
from sinkproof.chaos.kafka_client.client_settings import brokers_of, client_options, settings_of
from sinkproof.chaos.schedule import parse
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.chaos.services.ports import HOST
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.execution.process_runner import process_runner
from sinkproof.sink_adapters.kafka.topic_reader import read
from sinkproof.sink_adapters.kafka.transaction_control import TransactionControl
from sinkproof.subject.loading import check, locator_of
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

from ...support.certificates import issue
from ...support.real_services import RunPair, runs_against
from ...support.secured_kafka import PASSWORD, add_user, secured_address, settings_text, tls_port
from .test_certify import SCHEDULES

Change = Callable[[str], str]


@pytest.fixture(scope="module")
def run(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunPair]:
    file = tmp_path_factory.mktemp("client") / "client.properties"
    with runs_against(broker, address=secured_address(broker, file, settings_text(broker))) as play:
        yield play


@pytest.mark.parametrize("schedule", SCHEDULES[-1:])  # the others: below, in a whole certification
def test_rows_are_there_once_behind_tls_and_a_password(run: RunPair, schedule: str) -> None:
    run_result = run("kafka/two-phase", schedule)
    assert (True, [], "") == (run_result.finished, list(run_result.anomalies), run_result.failure)
    assert parse(schedule).faults == run_result.struck
    assert 24 == run_result.rows_committed


def test_a_plain_sink_repeats_rows_there_too(run: RunPair) -> None:
    run_result = run("kafka/plain", "sink[0].snapshot.after#1=kill")
    assert "O2" in {anomaly.oracle for anomaly in run_result.anomalies}


def test_a_canary_is_convicted_there_for_its_own_sin(secured: str) -> None:
    contract, folder = canaries.UsesProducersAgain, fresh_folder()
    services = ServicesInUse(options=ServiceOptions(kafka=f"external:{secured}"))
    scratch = Scratch(name="secured", path=folder, shell="process", services=services)
    with process_runner(check(locator_of(contract), contract), scratch) as runner:
        run_result = runner.run(parse("job=sparse sink[0].pre_commit.after#2=kill-job"))
    folder.rmdir()
    assert {"O2", "O3"} & {anomaly.oracle for anomaly in run_result.anomalies}


def test_every_request_of_ours_is_answered_as_on_the_plain_listener(
    secured: str, broker: LocalKafka, topic: str
) -> None:
    answers = []
    for endpoint in (secured, broker.endpoint):
        control = TransactionControl(endpoint)
        of_topic = [control.end_offset(topic, 0, committed=committed) for committed in (False, True)]
        answers.append(
            [
                control.end_version(),
                control.partitions(topic),
                control.partitions("never-there")[0],
                control.describe("never-there").error,
                control.listed("never-there.*", ()),
                control.producers(topic, 1),
                of_topic,
            ]
        )
        control.close()
    assert answers[0] == answers[1]
    assert [(0, [0, 1]), 3, 105] == answers[0][1:4]


def test_a_user_name_that_scram_has_to_escape_is_let_in(broker: LocalKafka, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    add_user(broker, user="a=b,c")
    address = secured_address(broker, tmp_path / "client.properties", settings_text(broker, user="a=b,c"))
    connection = BrokerConnection(brokers_of(address)[0], settings_of(address), seconds=30)
    assert 1 == len(connection.metadata().brokers)
    connection.close()
    assert 1 == len(AdminClient(client_options(address)).list_topics(timeout=30).brokers), "librdkafka, too"


def changed(old: str, new: str) -> Change:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed(PASSWORD, "wrong"), "does not let alice in: Authentication failed"),
        (changed("SCRAM-SHA-512", "SCRAM-SHA-256"), "takes no password by SCRAM-SHA-256: it offers SCRAM-SHA-512"),
        (changed("SASL_SSL", "SASL_PLAINTEXT"), "no Kafka answers at"),
        (changed("SASL_SSL", "SSL"), "no Kafka answers at"),
    ],
)
def test_what_does_not_fit_is_said_at_once(broker: LocalKafka, tmp_path: Path, change: Change, said: str) -> None:
    address = secured_address(broker, tmp_path / "client.properties", change(settings_text(broker)))
    with pytest.raises(ServiceUnavailable) as refused, KAFKA.use(f"external:{address}"):
        pass
    assert said in str(refused.value)
    assert "client.properties" in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_an_authority_that_has_not_signed_the_broker_is_refused(broker: LocalKafka, tmp_path: Path) -> None:
    issue(tmp_path, HOST)
    text = "security.protocol=SSL\nssl.truststore.location=ca.pem\n"
    address = secured_address(broker, tmp_path / "client.properties", text)
    with (
        pytest.raises(ServiceUnavailable, match=r"is not valid here: .*Name the authority"),
        KAFKA.use(f"external:{address}"),
    ):
        pass


def test_a_plain_client_of_the_tls_listener_learns_of_the_file(broker: LocalKafka) -> None:
    with (
        pytest.raises(ServiceUnavailable, match=r"wants TLS or a password is external:HOST:PORT@FILE"),
        KAFKA.use(f"external:{HOST}:{tls_port(broker)}"),
    ):
        pass


def test_a_tls_client_of_the_plain_listener_learns_so(broker: LocalKafka, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("security.protocol=SSL\n")
    with (
        pytest.raises(ServiceUnavailable, match="does not answer in TLS"),
        KAFKA.use(f"external:{broker.endpoint}@{tmp_path}/client.properties"),
    ):
        pass


def test_a_sinks_own_client_gets_options_that_work(secured: str, topic: str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    services = ServicesInUse(options=ServiceOptions(kafka=f"external:{secured}"))
    service = Scratch(name="x", path=Path(), services=services).service("kafka")
    assert (secured.partition("@")[0], secured.partition("@")[2]) == (service.brokers, service.settings_file)
    producer = Producer(service.client_options)
    producer.produce(topic, b"one", b"key")
    assert 0 == producer.flush(30)
    assert [b"one"] == [record.value for record in service.read(topic)]
    consumer = Consumer({**service.consumer_options, "group.id": "mine"})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    received = consumer.poll(30)
    consumer.close()
    assert received is not None
    assert b"one" == received.value()
    assert PASSWORD not in repr((service, services, service.client_options))


def test_a_connection_that_is_refused_leaves_no_socket(broker: LocalKafka, tmp_path: Path) -> None:
    """A warning about an unclosed socket would fail this test."""
    address = secured_address(broker, tmp_path / "client.properties", settings_text(broker, password="wrong"))
    control = TransactionControl(address)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="does not let alice in"):
            BrokerConnection(control.endpoints[0], control.settings, seconds=30)


def sinkproof(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SINKPROOF_KAFKA")}
    command = [sys.executable, "-m", "sinkproof", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def files_with(secret: str, folder: Path) -> list[str]:
    """But for the file that is there to hold it."""
    found = [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    return [str(path) for path in found if path.name != "client.properties"]


@pytest.mark.parametrize(
    ("subject", "budget", "expected"),
    [
        ("kafka/two-phase", "least", (0, "upheld", "exactly-once")),
        ("kafka/plain", "least", (0, "upheld", "at-least-once")),
        ("sinkproof.canaries.kafka:UsesProducersAgain", "20s", (1, "violated", "at-most-once")),
    ],
)
@pytest.mark.longer
@pytest.mark.timeout(900)
def test_a_subject_is_certified_as_on_a_plain_listener_and_no_artefact_has_the_password(
    secured: str, tmp_path: Path, subject: str, budget: str, expected: tuple[int, str, str]
) -> None:
    options = ("--on", "process", "--no-canaries", "--budget", budget, "--out", "found")
    run = sinkproof(tmp_path, "certify", subject, *options, "--kafka", f"external:{secured}")
    [found] = json.loads((tmp_path / "found" / "certificate.json").read_text())["subjects"]
    assert expected == (run.returncode, found["verdict"], found["grade"]), run.stdout
    assert PASSWORD not in run.stdout + run.stderr
    assert [] == files_with(PASSWORD, tmp_path)


def test_a_short_certification_leaves_the_password_nowhere(secured: str, tmp_path: Path) -> None:
    options = ("--on", "process", "--no-canaries", "--budget", "3s", "--out", "found")
    run = sinkproof(tmp_path, "certify", "kafka/plain", *options, "--kafka", f"external:{secured}")
    certificate = json.loads((tmp_path / "found" / "certificate.json").read_text())
    [shell] = certificate["subjects"][0]["shells"]
    assert 0 < shell["schedules_run"]
    assert PASSWORD not in run.stdout + run.stderr
    assert [] == files_with(PASSWORD, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ("certify", "kafka/plain", "--on", "process", "--no-canaries", "--kafka", "external:"),
        pytest.param(
            ("run", "etl", "--from", "kafka:a", "--to", "kafka:b", "--kafka", ""), marks=pytest.mark.longer
        ),  # waits 5 s for brokers that may be on their way back
    ],
)
def test_a_wrong_password_ends_a_command_with_a_sentence(
    broker: LocalKafka, tmp_path: Path, command: tuple[str, ...]
) -> None:
    address = secured_address(broker, tmp_path / "client.properties", settings_text(broker, password="not-this-one"))
    run = sinkproof(tmp_path, *command[:-1], command[-1] + address)
    assert 3 == run.returncode
    assert "does not let alice in" in run.stderr
    assert "Check user and password in" in run.stderr
    assert "Traceback" not in run.stderr
    assert "not-this-one" not in run.stdout + run.stderr


@pytest.mark.longer
@pytest.mark.timeout(900)
def test_a_pipeline_runs_from_topic_to_topic_behind_tls_and_leaves_the_password_nowhere(
    secured: str, make_topic: Callable[[str], str], tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic_from, topic_to = make_topic(secured), make_topic(secured)
    producer = Producer(client_options(secured))
    for number in range(500):
        producer.produce(topic_from, f"{number}".encode(), f"key {number % 7}".encode())
    assert 0 == producer.flush(30)
    topics = ("--from", f"kafka:{topic_from}", "--to", f"kafka:{topic_to}")
    run = sinkproof(tmp_path, "run", "etl", *topics, "--kafka", secured, "--until-end")
    assert 0 == run.returncode, run.stderr
    assert sorted(record.value or b"" for record in read(secured, topic_to)) == sorted(b"%d" % n for n in range(500))
    assert PASSWORD not in run.stdout + run.stderr
    assert [] == files_with(PASSWORD, tmp_path)
