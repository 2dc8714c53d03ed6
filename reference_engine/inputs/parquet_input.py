"""Parquet files, read by row number: a jump goes to the row group, and skips what is before it there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sinkproof.reference_engine.dataflow.columns import array_of_texts, batch_of_columns
from sinkproof.reference_engine.dataflow.replayable_sources import InputError
from sinkproof.reference_engine.inputs.input_rows import Picked
from sinkproof.sink_adapters.protocol import Batch


class GroupMap:
    """Where the rows of one file are."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with pq.ParquetFile(path) as file:
                sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
                self.names: list[str] = file.schema_arrow.names
        except pa.ArrowException as error:
            raise InputError(f"{path}: no Parquet ({error}). Was it written to its end?") from error
        self.starts = list(accumulate(sizes, initial=0))
        self.rows = self.starts[-1]

    def check(self, picked: Picked) -> None:
        picked.refuse_missing(self.names, self.path)
        for name in {name for name in self.names if self.names.count(name) > 1}:
            raise InputError(f"{self.path}: {self.names.count(name)} columns are called {name!r}. Rename all but one")

    def reader(self, split: int, offset: int, picked: Picked) -> GroupReader:
        group = bisect_right(self.starts, offset) - 1
        file = pq.ParquetFile(self.path)
        groups = list(range(group, len(self.starts) - 1))
        reader = GroupReader(file, groups, split, picked=picked, offset=self.starts[group])
        reader.skip(offset - self.starts[group])
        return reader


class GroupReader:
    """Goes on from where it stands."""

    def __init__(self, file: Any, groups: list[int], split: int, *, picked: Picked, offset: int) -> None:
        self.file, self.split, self.picked, self.offset = file, split, picked, offset
        columns = None if picked.value is None else sorted(set(picked.names))
        # Without threads: a pool of them does not survive a fork.
        self.pieces: Iterator[pa.RecordBatch] = file.iter_batches(row_groups=groups, columns=columns, use_threads=False)
        self.rest: pa.RecordBatch | None = None  # of the piece that was begun

    def skip(self, count: int) -> None:
        while count:
            count -= self._take(count).num_rows

    def read(self, count: int) -> Batch:
        start, parts, missing = self.offset, [], count
        while missing:
            parts.append(self._take(missing))
            missing -= parts[-1].num_rows
        return self._batch(pa.Table.from_batches(parts), start)

    def _take(self, most: int) -> pa.RecordBatch:
        """At least one row, all of one piece."""
        piece = self.rest
        while piece is None or not piece.num_rows:
            piece = next(self.pieces, None)
            if piece is None:
                raise InputError(f"it ends before row {self.offset}, though not when it was opened: it was replaced")
        self.rest = piece.slice(most)
        taken = piece.slice(0, most)
        self.offset += taken.num_rows
        return taken

    def _batch(self, table: pa.Table, start: int) -> Batch:
        picked = self.picked
        key: Any = table.column(picked.key)
        value = table.column(picked.value) if picked.value is not None else None
        times = table.column(picked.event_time) if picked.event_time is not None else None
        plain_times = times is None or (pa.types.is_integer(times.type) and not times.null_count)
        if value is None or key.null_count or not (plain_times and is_plain(key.type) and is_plain(value.type)):
            return self._one_by_one(table, start)
        value = value.cast(pa.string())
        if value.null_count:
            value = value.fill_null(NULL)
        return batch_of_columns((self.split, start), key, value, times=times)

    def _one_by_one(self, table: pa.Table, start: int) -> Batch:
        """Where Python has to say how a record, or a value, is written."""
        records = enumerate(table.to_pylist(), start)
        rows = [self.picked.row((self.split, offset), record, "row {}".format) for offset, record in records]
        return Batch.from_arrow(Batch(rows).to_arrow())

    def close(self) -> None:
        self.file.close()


def is_plain(kind: pa.DataType) -> bool:
    """Whether pyarrow casts it to the text that Python writes."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(is_kind(kind) for is_kind in PLAIN)


PLAIN: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean)
NULL: Final = array_of_texts(["null"])[0]
