"""Transactions on a real broker: pre-commit, commit from any process, abort of leftovers, committed view."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.sink_adapters.kafka import topic_reader as kafka_reader
from sinkproof.sink_adapters.kafka.kafka_transactions import KafkaTransactions, OpenTransaction
from sinkproof.sink_adapters.kafka.record_sender import SendFailed
from sinkproof.sink_adapters.kafka.topic_reader import READ_COMMITTED, READ_UNCOMMITTED, ReadFailed, lingering, read
from sinkproof.sink_adapters.kafka.transaction_control import END_FENCING, END_PLAIN, TransactionControl
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Fenced, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

from .reading import committed

SINK = Owner("sink", 0, 1)
NO_BROKER = "127.0.0.1:1"


@pytest.fixture
def targets(broker: LocalKafka, topic: str) -> Iterator[Callable[[int], KafkaTransactions]]:
    """Makes the target of an attempt of a generation."""
    made: list[KafkaTransactions] = []

    def make(generation: int) -> KafkaTransactions:
        target = KafkaTransactions(broker.endpoint, topic)
        target.attach(Context(generation=generation))
        made.append(target)
        return target

    yield make
    for target in made:
        target.close()


def rows(*offsets: int) -> Batch:
    return Batch([Row(0, offset, f"k{offset}", f"v{offset}") for offset in offsets])


def begin(target: KafkaTransactions, generation: int, sequence: int) -> OpenTransaction:
    return target.begin(Transaction.of(SINK, generation, sequence))


def pre_committed(target: KafkaTransactions, generation: int, sequence: int, *, offsets: Sequence[int]) -> list[Any]:
    transaction = begin(target, generation, sequence)
    target.write(transaction, rows(*offsets))
    return target.pre_commit(transaction)


@pytest.mark.row("S23")
def test_a_pre_committed_transaction_is_hidden_and_any_process_commits_it_by_its_handle(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    handle = pre_committed(targets(1), 1, 1, offsets=[0, 1, 2])
    assert [] == committed(broker.endpoint, topic)
    assert 3 == len(read(broker.endpoint, topic, isolation=READ_UNCOMMITTED))
    program = (
        "import json, sys\nfrom sinkproof.sink_adapters.kafka.kafka_transactions import KafkaTransactions\n"
        "endpoint, topic, handle = sys.argv[1:]\n"
        "print(KafkaTransactions(endpoint, topic).commit(json.loads(handle)).value)"
    )
    command = [sys.executable, "-c", program, broker.endpoint, topic, json.dumps(handle)]
    assert "committed" == subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert [0, 1, 2] == committed(broker.endpoint, topic)


def test_a_repeated_commit_changes_nothing(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    target = targets(1)
    handle = pre_committed(target, 1, 1, offsets=[0])
    outcomes = [target.commit(handle), target.commit(handle), targets(2).commit(handle)]
    assert CommitOutcome.COMMITTED == outcomes[0]
    assert {CommitOutcome.COMMITTED, CommitOutcome.ALREADY} >= set(outcomes[1:])
    assert [0] == committed(broker.endpoint, topic)


@pytest.mark.row("S21")
def test_several_transactions_are_pending_and_each_is_committed_alone(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    """With one producer for all, the commit of the first would commit the second."""
    target = targets(1)
    first, second = pre_committed(target, 1, 1, offsets=[0]), pre_committed(target, 1, 2, offsets=[1])
    assert CommitOutcome.COMMITTED == target.commit(first)
    assert CommitOutcome.COMMITTED == target.commit(first)
    assert [1] not in (committed(broker.endpoint, topic), [])
    assert {first[0], second[0]} - {*lingering(broker.endpoint, target.prefix)} == {first[0]}
    assert CommitOutcome.COMMITTED == target.commit(second)
    assert [0, 1] == committed(broker.endpoint, topic)


@pytest.mark.row("S23")
def test_the_abort_of_leftovers_ends_open_transactions_and_fences_their_producers(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    old, new = targets(1), targets(2)
    zombie = begin(old, 1, 1)
    old.write(zombie, rows(0))
    zombie.sender.flush(seconds=10)
    [left] = new.lingering(SINK, 2)
    assert zombie.transactional_id == left
    new.abort(left)
    assert [] == new.lingering(SINK, 2)
    old.write(zombie, rows(1, 2, 3, 4))
    with pytest.raises(Fenced):
        old.pre_commit(zombie)
    assert [] == lingering(broker.endpoint, new.prefix)
    assert [] == committed(broker.endpoint, topic)


def test_a_record_that_is_sent_after_the_client_knows_of_its_fencing_raises_fenced(
    targets: Callable[[int], KafkaTransactions],
) -> None:
    old, new = targets(1), targets(2)
    zombie = begin(old, 1, 1)
    old.write(zombie, rows(0))
    zombie.sender.flush(seconds=10)
    [left] = new.lingering(SINK, 2)
    new.abort(left)
    deadline = Deadline(30)

    def send_on() -> None:
        with zombie.sender.raising_fenced():
            while not deadline.over:  # no callback is served in between
                zombie.sender.send("key", b"{}")

    with pytest.raises(Fenced, match="fenced"):
        send_on()


def test_a_transaction_in_doubt_equals_its_handle_in_lingering(targets: Callable[[int], KafkaTransactions]) -> None:
    handle = pre_committed(targets(1), 1, 1, offsets=[0])
    [left] = targets(2).lingering(SINK, 2)
    assert left in [handle]
    assert left not in [["another", *handle[1:]]]


def test_a_transaction_that_a_zombie_begins_after_open_is_aborted_at_the_next_commit(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    """Otherwise it would hide later rows until it times out."""
    old, new = targets(1), targets(2)
    assert [] == new.lingering(SINK, 2)
    zombie = begin(old, 1, 5)
    old.write(zombie, rows(0, 1, 2, 3))
    zombie.sender.flush(seconds=10)
    handle = pre_committed(new, 2, 1, offsets=[7, 8, 9])
    assert CommitOutcome.COMMITTED == new.commit(handle)
    assert [] == lingering(broker.endpoint, new.prefix)
    assert [7, 8, 9] == committed(broker.endpoint, topic)


def test_a_restored_transaction_is_never_aborted(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    """Two were restored; the first is committed, and the second is still pending."""
    old, new = targets(1), targets(2)
    first, second = pre_committed(old, 1, 1, offsets=[0]), pre_committed(old, 1, 2, offsets=[1])
    assert {first[0], second[0]} == set(map(str, new.lingering(SINK, 2)))
    assert CommitOutcome.COMMITTED == new.commit(first)
    assert CommitOutcome.COMMITTED == new.commit(second)
    assert [0, 1] == committed(broker.endpoint, topic)


def test_the_abort_of_leftovers_spares_other_sinks_other_subtasks_and_newer_attempts(
    targets: Callable[[int], KafkaTransactions],
) -> None:
    target = targets(3)
    theirs = [Owner("other", 0, 2), Owner("sink", 1, 2), Owner("sink-0", 0, 2)]
    kept = []
    for owner in theirs:
        transaction = target.begin(Transaction.of(owner, 1, 1))
        target.write(transaction, rows(0))
        kept.append(transaction)
    newer = target.begin(Transaction.of(Owner("sink", 0, 2), 3, 1))
    target.write(newer, rows(1))
    for transaction in (*kept, newer):
        transaction.sender.flush(seconds=10)
    assert [] == target.lingering(Owner("sink", 0, 2), 3)
    assert [kept[1].transactional_id] == target.lingering(Owner("sink", 0, 1), 3)


@pytest.mark.row("S21")
def test_a_transaction_that_timed_out_fails_the_pre_commit_or_is_lost(broker: LocalKafka, topic: str) -> None:
    """Both before the pre-commit, and between pre-commit and commit."""
    target = KafkaTransactions(broker.endpoint, topic, timeout_seconds=1.0)
    target.attach(Context(generation=1))
    handle = pre_committed(target, 1, 1, offsets=[0])
    late = begin(target, 1, 2)
    target.write(late, rows(1))
    late.sender.flush(seconds=10)
    while lingering(broker.endpoint, target.prefix):
        pass  # the broker checks once a second
    with pytest.raises((Fenced, SendFailed)):
        target.pre_commit(late)
    assert CommitOutcome.LOST == target.commit(handle)
    assert [] == committed(broker.endpoint, topic)
    target.close()


@pytest.mark.row("S23")
def test_the_marker_decides_what_the_coordinator_has_forgotten(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka
) -> None:
    """The ids of a committed and of an aborted transaction are taken over: the coordinator describes both equally."""
    target, control = targets(1), TransactionControl(broker.endpoint)
    done, lost = pre_committed(target, 1, 1, offsets=[0]), pre_committed(target, 1, 2, offsets=[1])
    assert CommitOutcome.COMMITTED == target.commit(done)
    for handle in (done, lost):
        assert 0 == control.take_over(handle[0], timeout_ms=60_000)
        assert "Empty" == control.describe(handle[0]).state
    assert CommitOutcome.ALREADY == target.commit(done)
    assert CommitOutcome.LOST == target.commit(lost)
    control.close()


def test_a_reader_does_not_wait_behind_an_open_transaction(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    target = targets(1)
    assert CommitOutcome.COMMITTED == target.commit(pre_committed(target, 1, 1, offsets=[0, 1, 2, 3]))
    held = begin(target, 1, 2)
    target.write(held, rows(*range(4, 20)))
    held.sender.flush(seconds=10)
    assert CommitOutcome.COMMITTED == target.commit(pre_committed(target, 1, 3, offsets=list(range(20, 40))))
    assert [0, 1, 2, 3] == committed(broker.endpoint, topic), "what follows is hidden from every read_committed reader"
    assert 40 == len(read(broker.endpoint, topic, isolation=READ_UNCOMMITTED))


def test_a_missing_topic_raises_and_is_not_an_empty_view(broker: LocalKafka) -> None:
    with pytest.raises(ReadFailed, match="no-such-topic"):
        read(broker.endpoint, "no-such-topic")


def test_a_cached_client_that_fails_is_replaced(
    broker: LocalKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_reader, "SILENCE_SECONDS", 3.0)
    assert [] == read(broker.endpoint, topic)
    kept = kafka_reader.READERS[os.getpid(), broker.endpoint, READ_COMMITTED]
    kept.consumer.close()
    kept.consumer, kept.known = kafka_reader.TopicReader(NO_BROKER, READ_COMMITTED).consumer, {}
    assert [] == read(broker.endpoint, topic)
    assert kept is not kafka_reader.READERS[os.getpid(), broker.endpoint, READ_COMMITTED]


def test_the_default_version_ends_transactions_with_a_new_epoch(broker: LocalKafka) -> None:
    control = TransactionControl(broker.endpoint)
    assert END_FENCING == control.end_version()
    control.close()


def test_a_cluster_without_the_new_protocol_gets_the_old_end_of_transactions(
    old_broker: LocalKafka, make_topic: Callable[[str], str]
) -> None:
    """There, version 5 is refused, and the id hangs until the broker is restarted."""
    topic = make_topic(old_broker.endpoint)
    old, new = KafkaTransactions(old_broker.endpoint, topic), KafkaTransactions(old_broker.endpoint, topic)
    for generation, target in enumerate((old, new), 1):
        target.attach(Context(generation=generation))
    handle, left = pre_committed(old, 1, 1, offsets=[0]), begin(old, 1, 2)
    old.write(left, rows(1))
    left.sender.flush(seconds=30)
    assert END_PLAIN == handle[-1]
    assert [CommitOutcome.COMMITTED, CommitOutcome.COMMITTED] == [new.commit(handle), new.commit(handle)]
    new.abort(left.transactional_id)
    assert [] == new.lingering(SINK, 2)
    with pytest.raises(Fenced):
        old.pre_commit(left)
    assert [0] == committed(old_broker.endpoint, topic)
    for target in (old, new):
        target.close()


def test_closing_a_target_does_not_abort_a_pre_committed_transaction(
    targets: Callable[[int], KafkaTransactions], broker: LocalKafka, topic: str
) -> None:
    """close() of a Kafka client aborts its open transaction."""
    target = targets(1)
    handle = pre_committed(target, 1, 1, offsets=[0])
    target.close()
    assert [handle[0]] == lingering(broker.endpoint, target.prefix)
    assert CommitOutcome.COMMITTED == targets(2).commit(handle)


def test_a_broker_killed_between_pre_commit_and_commit_loses_nothing(
    own_broker: LocalKafka, make_topic: Callable[[str], str]
) -> None:
    topic = make_topic(own_broker.endpoint)
    target = KafkaTransactions(own_broker.endpoint, topic)
    target.attach(Context(generation=1))
    handle = pre_committed(target, 1, 1, offsets=[0, 1])
    own_broker.kill()
    assert CommitOutcome.RETRY == target.commit(handle), "the outcome is not known yet"
    own_broker.start()
    while (outcome := target.commit(handle)) is CommitOutcome.RETRY:
        assert "" == own_broker.died_by_itself()
    assert CommitOutcome.COMMITTED == outcome
    assert [0, 1] == committed(own_broker.endpoint, topic)
    target.close()


@pytest.mark.longer
def test_a_paused_broker_fails_the_pre_commit_and_leaves_the_commit_unknown(
    own_broker: LocalKafka, make_topic: Callable[[str], str]
) -> None:
    topic = make_topic(own_broker.endpoint)
    target = KafkaTransactions(own_broker.endpoint, topic)
    target.attach(Context(generation=1))
    handle = pre_committed(target, 1, 1, offsets=[0])
    other = begin(target, 1, 2)
    own_broker.pause()
    target.write(other, rows(1))
    with pytest.raises(SendFailed, match=r"not acknowledged|failed"):
        target.pre_commit(other)
    assert CommitOutcome.RETRY == target.commit(handle)
    own_broker.resume()
    while (outcome := target.commit(handle)) is CommitOutcome.RETRY:
        assert "" == own_broker.died_by_itself()
    assert CommitOutcome.COMMITTED == outcome
    assert [0] == committed(own_broker.endpoint, topic)
    target.close()
