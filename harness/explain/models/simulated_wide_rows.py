"""A small simulation of a Cassandra table: the last write of a cell wins, counters only add up.

A write carries a timestamp; a reader sees, for each primary key, the value with the greatest one. There is no
transaction over two keys. An addition to a counter has no key: repeated, it adds again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sinkproof.sink_adapters.protocol import Row


@dataclass
class WideRows:
    """One keyspace: a table of rows, one of counters, and one of sent parts, by which it is a checkpoint committer."""

    cells: dict[str, tuple[int, Row]] = field(default_factory=dict)  # primary key -> (write timestamp, value)
    sent: dict[str, int] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)

    def upsert(self, key: str, row: Row, *, timestamp: int) -> None:
        """INSERT ... USING TIMESTAMP."""
        self.statements["INSERT row"] += 1
        if timestamp >= self.cells.get(key, (timestamp, row))[0]:
            self.cells[key] = timestamp, row

    def delete(self, key: str) -> None:
        self.statements["DELETE row"] += 1
        self.cells.pop(key, None)

    def add(self, key: str, amount: int) -> None:
        """UPDATE ... SET n = n + ?"""
        self.statements["UPDATE counter"] += 1
        self.counters[key] += amount

    def record(self, part: str) -> None:
        self.statements["INSERT sent"] += 1
        self.sent[part] = 1

    def is_committed(self, part: str) -> bool:
        self.statements["SELECT sent"] += 1
        return part in self.sent

    def read(self) -> list[tuple[int, int]]:
        """Identities of the rows, by primary key."""
        return sorted(row[:2] for _, row in self.cells.values())
