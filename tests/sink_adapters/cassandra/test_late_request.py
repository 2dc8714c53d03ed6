"""The trap of conditional statements: one that was given up is applied after a SERIAL read has not found it.

A real proxy holds it back; nothing is simulated. The old attempt has sent it and waits; the new one, on a connection of
its own, asks what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sinkproof.canaries.cassandra import Choosing, ChoosingContract, TrustsASerialRead
from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra
from sinkproof.chaos.services.service import silent
from sinkproof.chaos.services.toxiproxy.toxic_network import Network
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY
from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient
from sinkproof.sink_adapters.cassandra.masked_partitions import CassandraSegments, read_masked
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction

Clients = Callable[[], CassandraClient]
BATCH = Batch([Row(0, offset, "key", "value") for offset in range(3)])


@pytest.fixture
def network(node: LocalCassandra) -> Iterator[Network]:
    with TOXIPROXY.use("local", progress=silent) as service:
        yield Network(service.endpoint)


@pytest.fixture
def slow(network: Network, node: LocalCassandra, clients: Clients) -> Iterator[CassandraClient]:
    """A client of the same keyspace, through the proxy."""
    client = CassandraClient(network.lead_to("node", node.endpoint), clients().keyspace)
    yield client
    client.close()


def late(contract: type[ChoosingContract], network: Network, clients: tuple[CassandraClient, CassandraClient]) -> int:
    """Number of visible copies of the three rows in the end."""
    old_client, new_client = clients
    new_client.define(contract.tables)
    old, new = contract.sink_class(old_client, "target"), contract.sink_class(new_client, "target")
    points: list[str] = []

    def reach(point: str) -> None:
        points.append(point)
        if point == "commit.before" and points.count(point) == 2:
            network.break_connections("net-latency-up")

    old.open(Context(generation=1, reach=reach))
    warm(old)
    old.write(BATCH)
    state = old.snapshot(2)
    assert [2] == list(old.notify_complete(2)), "it does not know, and says so"
    new.open(Context(generation=2, checkpoint_id_restored=2, restored=[(0, state)]))
    network.heal()
    while old.settle(0.0):
        pass  # the zombie repeats until it has an answer; its requests have arrived by then
    shown = [row for row in contract().rows_of(new_client, "target") if row != (9, 9)]
    return len(shown)


def warm(sink: Choosing) -> None:
    """Prepares the statements, so that the proxy delays only the decisive request."""
    sink.write(Batch([Row(9, 9, "key", "value")]))
    sink.snapshot(1)
    assert not list(sink.notify_complete(1))


def test_a_sink_that_trusts_a_serial_read_shows_rows_twice(
    network: Network, slow: CassandraClient, clients: Clients
) -> None:
    assert 6 == late(TrustsASerialRead, network, (slow, clients()))


def test_a_sink_that_sends_a_competing_insert_shows_rows_once(
    network: Network, slow: CassandraClient, clients: Clients
) -> None:
    assert 3 == late(ChoosingContract, network, (slow, clients()))


@pytest.mark.row("S25")
def test_a_marker_that_arrives_late_changes_nothing(network: Network, slow: CassandraClient, clients: Clients) -> None:
    client = clients()
    old, new = CassandraSegments(slow, "target"), CassandraSegments(client, "target")
    old.attach(Context(generation=1))
    new.attach(Context(generation=2))
    for checkpoint_id in (1, 2):
        old.stage(Transaction.of(Owner("sink", 0, 1), 1, checkpoint_id), BATCH)
    assert CommitOutcome.COMMITTED == old.reveal(1, 1)
    network.break_connections("net-latency-up")
    assert CommitOutcome.RETRY == old.reveal(1, 2)
    assert new.reveal(1, 2) in (CommitOutcome.COMMITTED, CommitOutcome.ALREADY)
    new.collect(Owner("sink", 0, 1), 2)
    network.heal()
    assert CommitOutcome.ALREADY == old.reveal(1, 2)
    assert 6 == len(list(read_masked(client, "target")))
