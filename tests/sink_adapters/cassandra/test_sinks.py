"""The targets on Cassandra, called one by one, on a real node."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra
from sinkproof.chaos.services.ports import HOST, free_ports
from sinkproof.sink_adapters.cassandra import cassandra_client
from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient, NotAcknowledged
from sinkproof.sink_adapters.cassandra.masked_partitions import ROWS, CassandraSegments, left_over, read_masked
from sinkproof.sink_adapters.cassandra.upserts_and_counters import (
    CassandraCommitter,
    CassandraTable,
    read_rows,
    read_written,
)
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Owner, Transaction

Clients = Callable[[], CassandraClient]
OWNER = Owner("sink", 0, 2)


def rows(*offsets: int) -> Batch:
    return Batch(Row(0, offset, "key", f"value-{offset}") for offset in offsets)


def attempt(client: CassandraClient, generation: int) -> CassandraSegments:
    target = CassandraSegments(client, "target")
    target.attach(Context(generation=generation))
    return target


@pytest.mark.row("S25")
def test_rows_are_hidden_until_their_marker_is_there_and_visible_from_then_on(clients: Clients) -> None:
    client = clients()
    target = attempt(client, 1)
    target.stage(Transaction.of(OWNER, 1, 1), rows(0, 1))
    target.stage(Transaction.of(OWNER, 1, 2), rows(2))
    assert [] == list(read_masked(client, "target"))
    assert [CommitOutcome.COMMITTED, CommitOutcome.ALREADY] == [target.reveal(1, 1), target.reveal(1, 1)]
    assert [Row(0, 0, "key", "value-0"), Row(0, 1, "key", "value-1")] == list(read_masked(client, "target"))
    assert CommitOutcome.COMMITTED == target.reveal(1, 2)
    target.reveal(1, 1)
    assert [0, 1, 2] == [row.offset for row in read_masked(client, "target")]


def test_a_collected_segment_stays_removed_even_if_a_zombie_adds_rows(clients: Clients) -> None:
    """The timestamps of its rows are below that of the removal, for any clocks."""
    client = clients()
    old, new = attempt(client, 1), attempt(clients(), 2)
    shown, hidden = Transaction.of(OWNER, 1, 1), Transaction.of(OWNER, 1, 2)
    old.stage(shown, rows(0))
    old.reveal(1, 1)
    old.stage(hidden, rows(1))
    assert [hidden] == left_over(client, "target")
    new.collect(OWNER, 2)
    for zombie in (old, attempt(client, 1)):  # in the middle of the segment, and about to begin it
        zombie.stage(hidden, rows(2, 3))
    old.reveal(1, 2)
    assert ([], []) == (left_over(client, "target"), client.read(ROWS, ("target", hidden)))
    assert [0] == [row.offset for row in read_masked(client, "target")]


def test_only_the_owner_collects(clients: Clients) -> None:
    client = clients()
    target = attempt(client, 1)
    theirs = [Transaction.of(Owner("sink", 1, 2), 1, 1), Transaction.of(Owner("sink", 0, 2), 2, 1)]
    for segment in theirs:
        target.stage(segment, rows(0))
    attempt(client, 2).collect(OWNER, 2)
    assert sorted(theirs) == sorted(left_over(client, "target"))


@pytest.mark.row("S24")
def test_a_part_counts_as_sent_only_after_it_was_recorded(clients: Clients) -> None:
    client = clients()
    committer, part = CassandraCommitter(client, "target"), CheckpointPart.of(OWNER, 3)
    assert not committer.is_committed(part)
    committer.record(part)
    committer.record(part)
    assert committer.is_committed(part)
    assert not committer.is_committed(CheckpointPart.of(OWNER, 33))


def test_a_row_lists_its_writers_and_is_there_once(clients: Clients) -> None:
    client = clients()
    for generation in (1, 1, 2):
        table = CassandraTable(client, "target")
        table.attach(Context(generation=generation))
        table.publish(CheckpointPart.of(OWNER, 1), rows(*range(300)).rows)
    assert 300 == len(list(read_rows(client, "target")))
    assert 600 == len(list(read_written(client, "target")))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_makes_a_session_of_its_own(clients: Clients) -> None:
    """An inherited one would hang."""
    client = clients()
    target = attempt(client, 1)
    target.stage(Transaction.of(OWNER, 1, 1), rows(0))
    if not (child := os.fork()):
        target.stage(Transaction.of(OWNER, 1, 2), rows(1))
        os._exit(0)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert 2 == len(left_over(client, "target"))


def test_an_invalid_statement_raises_and_does_not_count_as_unacknowledged(
    node: LocalCassandra, clients: Clients
) -> None:
    with pytest.raises(Exception, match="no_such_table"):
        clients().write("INSERT INTO {ks}.no_such_table (a) VALUES (?)", (1,))


def test_without_a_node_nothing_is_acknowledged_and_no_insert_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassandra_client, "ANSWER_SECONDS", 0.5)
    client = CassandraClient(f"{HOST}:{free_ports(1, taken=())[0]}", "nowhere")
    with pytest.raises(NotAcknowledged, match=HOST):
        client.write("INSERT INTO {ks}.rows (target) VALUES (?)", ("x",))
    assert (
        client.insert_if_absent("INSERT INTO {ks}.sent (target, part) VALUES (?, ?) IF NOT EXISTS", ("x", "y")).applied
        is None
    )
