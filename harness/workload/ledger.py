"""Records what the sources held, before any row is sent; the oracle compares the committed view with nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.sink_adapters.protocol import Row

Identity = tuple[int, int]
ROWS_KEPT_MOST: Final = 200  # of an input of which the rows below each checkpoint are kept


class Ledger:
    """The rows of a bounded input by identity. Of a generator only offsets are recorded; rows are made on demand."""

    def __init__(self, source: Input) -> None:
        self.source = source
        self._below: dict[tuple[tuple[int, int], ...], frozenset[Identity]] = {}

    @cached_property
    def expected(self) -> list[Identity]:
        """Every row exactly once, sorted."""
        return [(split, offset) for split in range(self.source.splits) for offset in self.source.offsets(split)]

    @cached_property
    def rows(self) -> dict[Identity, Row]:
        batches = (
            self.source.batch(split, offset)
            for split in range(self.source.splits)
            for offset in self.source.offsets(split)[:: self.source.batch_rows]
        )
        return {(row.split, row.offset): row for batch in batches for row in batch}

    def last_per_key(self) -> list[Identity]:
        """The last row of each key, sorted: all that a sink which upserts by key leaves."""
        last: dict[str, Identity] = {}
        for identity, row in sorted(self.rows.items()):
            last[row.key] = identity
        return sorted(last.values())

    def one_per_key(self, committed: Iterable[Identity]) -> list[Identity]:
        """Of these rows one of each key: what may be there of upserts before the job has come to its end."""
        keys = {self.rows[identity].key: identity for identity in committed if identity in self.rows}
        return sorted(keys.values())

    def below(self, covered: dict[int, int]) -> frozenset[Identity]:
        """The rows that these offsets cover. Kept: runs of one job have the same checkpoints."""
        offsets = tuple(sorted(covered.items()))
        made = self._below.get(offsets)
        if made is None:
            made = frozenset(row for row in self.expected if row[1] < covered.get(row[0], 0))
            if len(self.expected) <= ROWS_KEPT_MOST:
                self._below[offsets] = made
        return made
