"""Contracts of the pairs on Cassandra: one keyspace per certification, and in it one target per run."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

from sinkproof.sink_adapters.cassandra import masked_partitions as cassandra_masked
from sinkproof.sink_adapters.cassandra import upserts_and_counters as cassandra_rows
from sinkproof.sink_adapters.cassandra.cassandra_client import CassandraClient
from sinkproof.sink_adapters.protocol import Identity, Row, Sink, without_line_points
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.strategy_claims import WHOLE
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

PLACE: Final = "place"  # the file from which the attempts of a run read where to write
KEYSPACES: Final = count(1)
NO_SETTINGS: Final[Mapping[str, Any]] = {}


def _write_ahead(target: Callable[[CassandraClient, str], Any], client: CassandraClient, name: str) -> Sink:
    return WriteAheadSink(target(client, name), cassandra_rows.CassandraCommitter(client, name))


def _own_keys(client: CassandraClient, name: str) -> Sink:
    """Keys like those of an operator that numbers rows on arrival: each attempt starts again."""
    numbers = count(1)

    def key(row: Row) -> str:
        return f"{os.getpid()}-{next(numbers)}"

    return IdempotentSink(cassandra_rows.CassandraTable(client, name), key=key)


SINKS: Final[dict[str, Callable[[CassandraClient, str], Sink]]] = {
    "masked": lambda client, name: MaskedSink(cassandra_masked.CassandraSegments(client, name)),
    "idempotent": lambda client, name: IdempotentSink(cassandra_rows.CassandraTable(client, name)),
    "idempotent-own-key": _own_keys,
    "write-ahead": partial(_write_ahead, cassandra_rows.CassandraTable),
    "write-ahead-counter": partial(_write_ahead, cassandra_rows.CassandraCounters),
    "write-ahead-list": partial(_write_ahead, cassandra_rows.CassandraLists),
}


READERS: Final[dict[str, Callable[[CassandraClient, str], Iterator[Identity | Row]]]] = {  # counters show no value
    "masked": cassandra_masked.read_masked,
    "write-ahead-counter": cassandra_rows.read_counts,
    "write-ahead-list": cassandra_rows.read_lists,
}


@without_line_points
class RunPlace(NamedTuple):
    endpoint: str
    direct_endpoint: str
    keyspace: str
    target: str


@without_line_points
class OnCassandra(ABC):
    """A contract without its sink, its tables and their readers. Nodes cannot be copied, so sinks are processes.

    `setup` and the readers run in the process that outlives all attempts, and so do its sessions.
    """

    marks_points = True
    shells = ("process", "spark")
    libraries = ("cassandra.cluster", "cassandra.concurrent")
    settings: Mapping[str, Any] = NO_SETTINGS
    tables: Sequence[str] = ()

    def __init__(self) -> None:
        self._numbers = count(1)
        self._keyspaces: dict[str, str] = {}  # by cluster: made by this process
        self._readers: dict[tuple[str, str], CassandraClient] = {}

    @abstractmethod
    def make(self, client: CassandraClient, target: str) -> Any:
        """The sink."""

    @abstractmethod
    def rows_of(self, client: CassandraClient, target: str) -> Iterable[Identity | Row]:
        """The committed rows."""

    def setup(self, scratch: Any) -> None:
        service = self._service(scratch, start=True)
        if service.identity not in self._keyspaces:
            name = f"sinkproof_{os.getpid()}_{next(KEYSPACES)}"
            service.make_keyspace(name, tables=self.tables)
            self._keyspaces[service.identity] = name
            if not service.own:
                service.remove_keyspace_at_exit(name)
        target = f"{scratch.path.name}-{next(self._numbers)}"
        place = (service.endpoint, service.direct_endpoint, self._keyspaces[service.identity], target)
        (scratch.path / PLACE).write_text(" ".join(place))

    def teardown(self, scratch: Any) -> None:
        (scratch.path / PLACE).unlink(missing_ok=True)

    def sink(self, scratch: Any) -> Any:
        place = self._place(scratch)
        return self.make(CassandraClient(place.endpoint, place.keyspace), place.target)

    def committed(self, scratch: Any) -> list[Identity | Row]:
        self._service(scratch)  # raises if it ended by itself, so that no sink is convicted of rows lost with it
        return list(self.rows_of(*self.reader(scratch)))

    def reader(self, scratch: Any) -> tuple[CassandraClient, str]:
        """A client of this process, and the target of this run."""
        place = self._place(scratch)
        key = place.direct_endpoint, place.keyspace
        if key not in self._readers:
            self._readers[key] = CassandraClient(*key)
        return self._readers[key], place.target

    def close_readers(self) -> None:
        """To be called before the cluster ends: open sessions would try to reconnect for ever."""
        while self._readers:
            self._readers.popitem()[1].close()

    def _service(self, scratch: Any, *, start: bool = False) -> Any:
        return scratch.service("cassandra", start=start, settings=self.settings)

    @staticmethod
    def _place(scratch: Any) -> RunPlace:
        return RunPlace(*(scratch.path / PLACE).read_text().split())


@without_line_points
class CassandraContract(OnCassandra):
    """A registered pair."""

    tables = (*cassandra_masked.TABLES, *cassandra_rows.TABLES)

    def __init__(self, strategy: str, *, claims: tuple[str, ...], grade: str) -> None:
        super().__init__()
        self.strategy, self.claims, self.grade = strategy, claims, grade
        if strategy == "masked":
            self.claims_beside = WHOLE
            self.residue = self._residue
            self.complete = self._complete
        if grade == "effectively-once":
            self.seen = self._seen

    def make(self, client: CassandraClient, target: str) -> Sink:
        return SINKS[self.strategy](client, target)

    def rows_of(self, client: CassandraClient, target: str) -> Iterable[Identity | Row]:
        return READERS.get(self.strategy, cassandra_rows.read_rows)(client, target)

    def _seen(self, scratch: Any) -> list[Identity]:
        return list(cassandra_rows.read_written(*self.reader(scratch)))

    def _residue(self, scratch: Any) -> list[str]:
        return cassandra_masked.left_over(*self.reader(scratch))

    def _complete(self, scratch: Any) -> list[int]:
        return cassandra_masked.revealed_checkpoints(*self.reader(scratch))
