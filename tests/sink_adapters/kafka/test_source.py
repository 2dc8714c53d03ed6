"""The source on a real topic: what it reads, where it resumes, and that it never skips records silently."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.reference_engine.dataflow.replayable_sources import InputError, decode_offsets
from sinkproof.reference_engine.inputs.kafka_batch import KafkaBatch, MapValues
from sinkproof.reference_engine.inputs.kafka_group import GroupOffsets, TopicView
from sinkproof.reference_engine.inputs.kafka_source import KafkaInput, KafkaReader
from sinkproof.sink_adapters.kafka.topic_admin import make_topics, remove_topics
from sinkproof.sink_adapters.protocol import Row

SECONDS = 300.0
NUMBERS = count(1)
Readers = Callable[..., KafkaReader]


@pytest.fixture
def topic(broker: LocalKafka) -> Iterator[str]:
    name = f"source-{os.getpid()}-{next(NUMBERS)}"
    make_topics(broker.endpoint, {name: {}}, partitions=2)
    yield name
    remove_topics(broker.endpoint, [name])


@pytest.fixture
def readers(broker: LocalKafka, topic: str) -> Iterator[Readers]:
    made: list[KafkaReader] = []

    def make(*, index: int = 0, parallelism: int = 1, offsets: Mapping[int, int] | None = None, **options: Any) -> Any:
        options = {"begins": {0: 0, 1: 0}, **options}
        reader = KafkaInput(endpoint=broker.endpoint, topic=topic, **options).reader(index, parallelism)
        reader.restore((offsets or {}).items())
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.close()


def send(endpoint: str, topic: str, numbers: range, *, partitions: int = 2, outcome: str = "") -> Producer:
    """Number n goes to partition n modulo partitions. `outcome`: of their transaction, if any."""
    options = {"transactional.id": f"{topic}-{outcome}"} if outcome else {}
    producer = Producer({"bootstrap.servers": endpoint, **options})
    if outcome:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in numbers:
        headers = [("h", b"1")] if number == 0 else None
        producer.produce(topic, f"v{number}".encode(), f"k{number}".encode(), number % partitions, headers=headers)
    assert producer.flush(30) == 0
    if outcome == "commit":
        producer.commit_transaction(30)
    elif outcome == "abort":
        producer.abort_transaction(30)
    return producer


def read(reader: KafkaReader, *, most: int = 1 << 30) -> list[Row]:
    """Reads to the end, or up to a number of rows."""
    rows: list[Row] = []
    deadline = Deadline(SECONDS)
    while len(rows) < most:
        assert not deadline.over, rows
        if not reader.ready():
            continue
        at = reader.next()
        if at is None:
            break
        rows += reader.batch(*at).rows
    return rows


def keys(rows: list[Row]) -> list[str]:
    return sorted((row.key for row in rows), key=lambda key: int(key[1:]))


def test_two_subtasks_read_each_partition_once_in_order_to_the_end_that_was_named(
    readers: Readers, broker: LocalKafka, topic: str
) -> None:
    send(broker.endpoint, topic, range(100))
    _, ends = TopicView(broker.endpoint, topic).extent()
    send(broker.endpoint, topic, range(100, 120))
    found = [read(readers(index=index, parallelism=2, ends=ends, batch_rows=7)) for index in (0, 1)]
    for split, rows in enumerate(found):
        expected = [(split, at, f"k{2 * at + split}", f"v{2 * at + split}") for at in range(50)]
        assert expected == [row[:4] for row in rows]


@pytest.mark.row("S16")
def test_a_source_is_idle_only_after_it_has_emitted_everything(
    readers: Readers, broker: LocalKafka, topic: str
) -> None:
    """A source that is still connecting, or not polled, holds watermarks back: otherwise its rows would be late."""
    send(broker.endpoint, topic, range(10))
    reader = readers()
    assert not reader.caught_up()
    read(reader, most=10)
    deadline = Deadline(SECONDS)
    while not reader.caught_up():
        assert not deadline.over
    send(broker.endpoint, topic, range(10, 11))
    while reader.caught_up():
        assert not deadline.over
    assert ["k10"] == keys(read(reader, most=1))


@pytest.mark.row("S17")
def test_what_was_aborted_or_is_open_is_not_read_and_markers_are_no_rows(
    readers: Readers, broker: LocalKafka, topic: str
) -> None:
    send(broker.endpoint, topic, range(10), outcome="commit")
    send(broker.endpoint, topic, range(10, 20), outcome="abort")
    send(broker.endpoint, topic, range(20, 30))
    held = send(broker.endpoint, topic, range(30, 40), outcome="held")
    _, ends = TopicView(broker.endpoint, topic).extent()
    reader = readers(ends=ends)
    assert [f"k{number}" for number in (*range(10), *range(20, 30))] == keys(read(reader))
    assert dict(ends) == dict(decode_offsets(reader.capture())), "also past the marker that comes last"
    held.abort_transaction(30)


@pytest.mark.row("S17")
def test_a_partition_that_is_added_is_found_and_stays_with_its_offset(
    readers: Readers, broker: LocalKafka, topic: str
) -> None:
    """Also after the job resumes with another parallelism."""
    send(broker.endpoint, topic, range(6))
    reader = readers(discover_seconds=0.05)
    assert 6 == len(read(reader, most=6))
    admin = AdminClient({"bootstrap.servers": broker.endpoint})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    send(broker.endpoint, topic, range(6, 12), partitions=3)
    assert [f"k{number}" for number in range(6, 12)] == keys(read(reader, most=6))
    offsets = dict(decode_offsets(reader.capture()))
    assert {0: 5, 1: 5, 2: 2} == offsets

    send(broker.endpoint, topic, range(12, 15), partitions=3)
    mine = {number: at for number, at in offsets.items() if number % 2 == 0}
    rows = read(readers(index=0, parallelism=2, offsets=mine), most=2)
    assert ["k12", "k14"] == keys(rows)


def test_removed_records_are_an_error_and_not_skipped(readers: Readers, broker: LocalKafka, topic: str) -> None:
    send(broker.endpoint, topic, range(10))
    admin = AdminClient({"bootstrap.servers": broker.endpoint})
    admin.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0, 3)].result(30)
    with pytest.raises(InputError, match=r"partition 0: offset 2 .* not there"):
        read(readers(offsets={0: 2, 1: 0}))
    with pytest.raises(InputError, match=r"partition 1: offset 9 .* not there"):
        read(readers(offsets={0: 3, 1: 9}))
    with pytest.raises(InputError, match=r"no partitions \[5\] any more"):
        read(readers(offsets={5: 1}))


@pytest.mark.row("S17")
def test_without_checkpoints_the_clients_own_commits_decide(readers: Readers, broker: LocalKafka, topic: str) -> None:
    """The client commits polled records by itself, written or not: here when it is closed."""
    send(broker.endpoint, topic, range(10))
    first = readers(by_client=True, group=topic)
    assert 10 == len(read(first, most=10))
    first.close()
    send(broker.endpoint, topic, range(10, 12))
    assert ["k10", "k11"] == keys(read(readers(by_client=True, group=topic), most=2))


@pytest.mark.row("S17")
def test_offsets_are_committed_to_the_group_and_never_read_from_it(
    readers: Readers, broker: LocalKafka, topic: str
) -> None:
    send(broker.endpoint, topic, range(10))
    group = GroupOffsets(broker.endpoint, topic, topic)
    group({0: 3, 1: 4})
    group({0: 5, 1: 5})
    group.close()
    admin = TopicView(broker.endpoint, topic, group=topic).client
    places = admin.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=30)
    assert [5, 5] == [place.offset for place in places]
    rows = read(readers(group=topic, offsets={0: 4, 1: 1}), most=5)
    assert ["k3", "k5", "k7", "k8", "k9"] == keys(rows)


def test_values_are_mapped_and_records_keep_binary_content(readers: Readers, broker: LocalKafka, topic: str) -> None:
    send(broker.endpoint, topic, range(1))
    producer = Producer({"bootstrap.servers": broker.endpoint})
    for key, value in ((b"\xff", b"\xfe"), (None, b"drop"), (b"tombstone", None), (b"empty", b"")):
        producer.produce(topic, value, key, 0)
    assert producer.flush(30) == 0
    _, ends = TopicView(broker.endpoint, topic).extent()
    reader = readers(ends=ends)
    batches = []
    while reader.ready() is False or (at := reader.next()) is not None:
        batches += [reader.batch(*at)] if reader._batch is not None else []
        reader._batch = None
    mapping = MapValues(lambda value: None if value == b"drop" else value + b"!")
    found = [record for batch in batches if (mapped := mapping.apply(batch)) for record in mapped.records]
    expected = [(b"k0", b"v0!"), (b"\xff", b"\xfe!"), (b"tombstone", None), (b"empty", b"!")]
    assert expected == [record[:2] for record in found]
    emptied = filter(None, map(MapValues(lambda value: b"").apply, batches))
    assert [b"", b"", b"", None, b""] == [value for batch in emptied for _, value, *_ in batch.records], "no tombstones"
    assert [("h", b"1")] == found[0][3]
    with pytest.raises(InputError, match="offset 1 of partition 0 is not text"):
        _ = KafkaBatch(0, [0, 1], keys=[b"k", b"\xff"], values=[b"v"] * 2, times_ms=[0, 0], headers=[None] * 2).rows
