"""Rows and marker in one transaction: no part is sent twice, also with open transactions of other writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.sink_adapters.kafka.record_sender import SendFailed
from sinkproof.sink_adapters.kafka.topic_reader import lingering
from sinkproof.sink_adapters.kafka.transactional_write_ahead import KafkaMarkedLog
from sinkproof.sink_adapters.protocol import CommitOutcome, Fenced, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Owner

from .reading import committed

FIRST, SECOND = Owner("sink", 0, 2), Owner("sink", 1, 2)
PART = CheckpointPart.of(FIRST, 1)


@pytest.fixture
def logs(broker: LocalKafka, topic: str) -> Iterator[Callable[[], KafkaMarkedLog]]:
    made: list[KafkaMarkedLog] = []

    def make() -> KafkaMarkedLog:
        made.append(KafkaMarkedLog(broker.endpoint, topic))
        return made[-1]

    yield make
    for log in made:
        log.close()


def rows(*offsets: int) -> list[Row]:
    return [Row(0, offset, f"k{offset}", f"v{offset}") for offset in offsets]


def hold_open(log: KafkaMarkedLog, owner: Owner) -> str:
    """A transaction of this subtask that hides what follows it in every partition of the markers."""
    part = CheckpointPart.of(owner, 7)
    name = log._name(part)
    sender = log._sender(name)
    sender.producer.init_transactions(30)
    sender.producer.begin_transaction()
    for number in range(20):
        sender.send(f"filler-{number}", b"", topic=log.markers)
    sender.flush(seconds=30)
    return name


@pytest.mark.row("S20")
def test_a_part_that_is_sent_again_is_there_once(
    logs: Callable[[], KafkaMarkedLog], broker: LocalKafka, topic: str
) -> None:
    log = logs()
    assert not log.is_committed(PART)
    assert CommitOutcome.COMMITTED == log.publish(PART, rows(0, 1))
    after = logs()  # takes over after the broker has completed the commit
    assert [CommitOutcome.ALREADY] * 2 == [after.publish(PART, rows(0, 1)) for _ in range(2)]
    assert log.is_committed(PART)
    assert [0, 1] == committed(broker.endpoint, topic)


def test_a_marker_behind_an_open_transaction_is_neither_there_nor_missing(
    logs: Callable[[], KafkaMarkedLog], broker: LocalKafka, topic: str
) -> None:
    """A zombie of another subtask hides the marker. To send again would repeat the part."""
    zombie, log, after = logs(), logs(), logs()
    name = hold_open(zombie, SECOND)
    assert CommitOutcome.COMMITTED == log.publish(PART, rows(0))
    assert not after.is_committed(PART), "every reader is held up"
    assert CommitOutcome.RETRY == after.publish(PART, rows(0))
    after.collect(SECOND, 2)
    assert name not in lingering(broker.endpoint, topic)
    assert CommitOutcome.ALREADY == after.publish(PART, rows(0))
    assert [0] == committed(broker.endpoint, topic)


def test_an_attempt_that_was_taken_over_sends_nothing_more(
    logs: Callable[[], KafkaMarkedLog], broker: LocalKafka, topic: str
) -> None:
    old, new = logs(), logs()
    assert CommitOutcome.COMMITTED == old.publish(PART, rows(0))
    assert CommitOutcome.COMMITTED == new.publish(CheckpointPart.of(FIRST, 2), rows(1))
    with pytest.raises(Fenced):
        old.publish(CheckpointPart.of(FIRST, 3), rows(2))
    assert [0, 1] == committed(broker.endpoint, topic)


def test_a_failure_of_the_binding_without_a_cause_is_that_of_its_client(
    logs: Callable[[], KafkaMarkedLog], broker: LocalKafka, topic: str
) -> None:
    """A fatal error during a flush leaves a SystemError, sometimes without its cause."""
    old, new = logs(), logs()
    old.publish(PART, rows(0))
    new.publish(CheckpointPart.of(FIRST, 2), rows(1))
    with pytest.raises(Fenced):
        old.publish(CheckpointPart.of(FIRST, 3), rows(2))
    for log, expected in ((old, Fenced), (new, SendFailed)):
        (sender,) = log._senders.values()
        with pytest.raises(expected), sender.raising_fenced():
            raise SystemError("flush returned NULL without setting an exception")


def test_collect_takes_over_its_own_subtasks_only(logs: Callable[[], KafkaMarkedLog], broker: LocalKafka) -> None:
    log = logs()
    first, second = hold_open(log, FIRST), hold_open(log, SECOND)
    logs().collect(FIRST, 2)
    left = lingering(broker.endpoint, log.topic)
    assert (False, True) == (first in left, second in left)
