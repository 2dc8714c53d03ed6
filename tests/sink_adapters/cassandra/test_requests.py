"""The latency of requests to a real node."""

from __future__ import annotations

from collections.abc import Callable

from sinkproof.chaos.clock import now
from sinkproof.sink_adapters.cassandra.cassandra_client import ROWS_TOGETHER, CassandraClient
from sinkproof.sink_adapters.cassandra.upserts_and_counters import UPSERT

ACKNOWLEDGED_SECONDS = 0.04  # the delay of a TCP acknowledgement


def test_a_request_of_several_packets_does_not_wait_for_the_first_one(clients: Callable[[], CassandraClient]) -> None:
    """The fastest of twenty: with the defect each one waits, also on an idle machine."""
    client = clients()
    rows = [(1, 0, number, "key", "value" * 20, 0, {1}, "target", 0, f"0-{number}") for number in range(ROWS_TOGETHER)]
    seconds = []
    for _ in range(20):
        began = now()
        client.write_together(UPSERT, rows)
        seconds.append(now() - began)
    assert min(seconds) < ACKNOWLEDGED_SECONDS / 2
