"""`scratch.service("kafka")`: what a stranger's contract is given, and where all processes of a run find it."""

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
from sinkproof.subject.kafka_service import KafkaService
from sinkproof.subject.scratch import Scratch

START = (
    "from pathlib import Path\nfrom sinkproof.subject.scratch import Scratch\n"
    "print(Scratch(name='x', path=Path()).service('kafka', start=True).endpoint)"
)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What runs on this machine besides is not seen."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("SINKPROOF_KAFKA", raising=False)
    return tmp_path


def test_without_any_kafka_the_next_step_is_named(elsewhere: Path) -> None:
    with pytest.raises(LookupError, match=r"start=True.*setup.*sinkproof services start kafka"):
        Scratch(name="x", path=elsewhere).service("kafka")


def test_a_service_that_nobody_offers_is_told(elsewhere: Path) -> None:
    with pytest.raises(LookupError, match="no service 'rabbit' is offered"):
        Scratch(name="x", path=elsewhere).service("rabbit")


def endpoint_found(channel: object) -> None:
    channel.send(Scratch(name="x", path=Path()).service("kafka").endpoint)  # type: ignore[attr-defined]


def test_the_children_of_who_started_it_find_it_and_strangers_do_not(
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
def test_one_that_is_started_for_a_contract_ends_with_its_process(elsewhere: Path) -> None:
    run = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("127.0.0.1:")
    assert [] == list((elsewhere / "sinkproof/services").glob("*.json"))


def test_a_broker_that_died_by_itself_makes_no_verdict(own_broker: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """ReaderFailed ends in UNKNOWN. What died because it was told to is a fault like any other."""
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
    service.remove_topics([name, "never-there"])
