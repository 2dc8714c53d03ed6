"""A batch of records of a topic, kept unchanged, so that a sink that writes to a topic again loses nothing of them.

A row's key and value are text. A record may be without a key, without a value (a tombstone), hold bytes that are no
text, and carry headers: all of that stays in columns until `rows` is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from sinkproof.reference_engine.dataflow.operators import Operator
from sinkproof.reference_engine.dataflow.replayable_sources import InputError
from sinkproof.sink_adapters.protocol import Batch, Row

if TYPE_CHECKING:
    import pyarrow

KafkaRecord = tuple[bytes | None, bytes | None, int, Any]  # key, value, timestamp in ms, headers
Transform = Callable[[bytes], bytes | None]


class KafkaBatch(Batch):
    """Records of one partition, in order: the partition is the split, and offsets are those of the topic."""

    __slots__ = ("headers", "keys", "offsets", "split", "times_ms", "values")

    def __init__(
        self,
        split: int,
        offsets: Sequence[int],
        *,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times_ms: Sequence[int],
        headers: Sequence[Any],
    ) -> None:
        self.split, self.offsets = split, offsets
        self.keys, self.values, self.times_ms, self.headers = keys, values, times_ms, headers
        self._rows, self._table, self.columnar = None, None, True

    @property
    def records(self) -> Iterable[KafkaRecord]:
        return zip(self.keys, self.values, self.times_ms, self.headers, strict=True)

    @property
    def rows(self) -> tuple[Row, ...]:
        if self._rows is None:
            self._rows = tuple(map(self._row, self.offsets, self.records))
        return self._rows

    def to_arrow(self) -> pyarrow.Table:
        if self._table is None:
            self._table = Batch(self.rows).to_arrow()
        return self._table

    def __len__(self) -> int:
        return len(self.offsets)

    def with_values(self, values: Sequence[bytes | None]) -> KafkaBatch:
        of_others = {"keys": self.keys, "times_ms": self.times_ms, "headers": self.headers}
        return KafkaBatch(self.split, self.offsets, values=values, **of_others)

    def only(self, wanted: Sequence[bool]) -> KafkaBatch:
        names = ("keys", "values", "times_ms", "headers")
        columns = {name: list(compress(getattr(self, name), wanted)) for name in names}
        return KafkaBatch(self.split, list(compress(self.offsets, wanted)), **columns)

    def _row(self, offset: int, record: KafkaRecord) -> Row:
        key, value, time_ms, _ = record
        try:
            return Row(self.split, offset, (key or b"").decode(), (value or b"").decode(), time_ms)
        except UnicodeDecodeError as error:
            raise InputError(
                f"the record at offset {offset} of partition {self.split} is not text ({error}): this job needs keys "
                "and values in UTF-8. Only `run etl` moves bytes as they are"
            ) from error


class MapValues(Operator):
    """Each value to another one, or to None, and then the record is not passed on. Tombstones pass."""

    def __init__(self, transform: Transform) -> None:
        self.transform = transform

    def apply(self, batch: Batch) -> Batch | None:
        assert isinstance(batch, KafkaBatch), "it is chained to the source"
        if all(batch.values):  # the quickest way to see that there is no tombstone
            made = list(map(self.transform, batch.values))  # type: ignore[arg-type]
        else:
            made = [None if value is None else self.transform(value) for value in batch.values]
        mapped = batch.with_values(made)
        if all(made):
            return mapped
        wanted = [new is not None or old is None for new, old in zip(made, batch.values, strict=True)]
        return mapped.only(wanted) if any(wanted) else None
