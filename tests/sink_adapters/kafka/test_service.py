"""`scratch.service("kafka")`: what a user's contract gets, and how all processes of a run find it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.chaos.services.running_services import await_exit
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.sink_adapters.kafka.topic_reader import READERS
from sinkproof.subject.kafka_service import KafkaService
from sinkproof.subject.scratch import Scratch

START = (
    "from pathlib import Path\nfrom sinkproof.subject.scratch import Scratch\n"
    "print(Scratch(name='x', path=Path()).service('kafka', start=True).endpoint)"
)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hides services that run on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("SINKPROOF_KAFKA", raising=False)
    return tmp_path


def test_without_any_kafka_the_next_step_is_named(elsewhere: Path) -> None:
    with pytest.raises(LookupError, match=r"start=True.*setup.*sinkproof services start kafka"):
        Scratch(name="x", path=elsewhere).service("kafka")


def test_an_unknown_service_is_an_error(elsewhere: Path) -> None:
    with pytest.raises(LookupError, match="no service 'rabbit' is offered"):
        Scratch(name="x", path=elsewhere).service("rabbit")


def endpoint_found(channel: object) -> None:
    channel.send(Scratch(name="x", path=Path()).service("kafka").endpoint)  # type: ignore[attr-defined]


def test_child_processes_of_the_starter_find_it_and_other_processes_do_not(
    own_broker: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SINKPROOF_KAFKA", raising=False)
    assert own_broker.endpoint == Scratch(name="x", path=Path()).service("kafka").endpoint
    mine, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=endpoint_found, args=(theirs,))
    child.start()
    assert mine.recv() == own_broker.endpoint
    child.join()
    assert own_broker.owner == os.getpid()


@pytest.mark.slow
def test_a_broker_started_for_a_contract_ends_with_its_process(elsewhere: Path) -> None:
    run = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("127.0.0.1:")
    assert [] == list((elsewhere / "sinkproof/services").glob("*.json"))


def test_a_broker_that_ended_by_itself_raises_reader_failed(
    own_broker: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReaderFailed ends in UNKNOWN. A broker killed by a fault is not such a failure."""
    monkeypatch.delenv("SINKPROOF_KAFKA", raising=False)
    scratch = Scratch(name="x", path=Path())
    own_broker.kill()
    assert own_broker.endpoint == scratch.service("kafka").endpoint
    own_broker.start()
    os.kill(own_broker.pid(1), signal.SIGKILL)
    await_exit(own_broker.pid(1), 60)
    with pytest.raises(ReaderFailed, match="died by itself"):
        scratch.service("kafka")


def test_topics_are_made_read_and_removed(broker: LocalKafka) -> None:
    service = KafkaService(endpoint=broker.endpoint, direct_endpoint=broker.endpoint, identity=broker.identity)
    name = f"topics-{os.getpid()}"
    service.make_topic(name, partitions=3)
    assert [] == service.read(name)
    assert [] == service.lingering(name)
    assert name in known_topics()
    service.remove_topics([name, "never-there"])
    assert name not in known_topics(), "the next topic of this name has to be asked for"


def known_topics() -> set[str]:
    """To the readers of this process."""
    return {topic for (process, _, _), reader in READERS.items() if process == os.getpid() for topic in reader.known}
