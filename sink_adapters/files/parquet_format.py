"""The Parquet format. The only file that imports pyarrow.parquet; loaded on demand.

A Parquet file is complete only with its footer, so rows wait in memory until the part is rolled or pre-committed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from sinkproof.sink_adapters.protocol import Batch, Identity, Row, row_schema

LARGE_BYTES: Final = 1 << 16  # of a part: from here on compression, dictionaries and statistics pay off
SMALL_BYTES: Final = 1 << 14  # of a part that is cached: a certification makes equal ones thousands of times
ROW_BYTES: Final = 28  # of a row in Arrow's layout, besides its two texts


class ParquetWriter:
    """A few rows wait as rows, so that equal parts are encoded once; many rows, and columns, wait as tables."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tables: list[pa.Table] = []
        self.size = 0

    def add(self, batch: Batch) -> bytes:
        if batch.columnar:
            self._pack()
            self.tables.append(batch.to_arrow())
            self.size += self.tables[-1].nbytes
            return b""
        self.rows += batch.rows
        self.size += sum(map(_bytes_of, batch.rows))
        if self.size > SMALL_BYTES:
            self._pack()
        return b""

    def _pack(self) -> None:
        if self.rows:
            self.tables.append(Batch(self.rows).to_arrow())
            self.rows = []

    def finish(self) -> bytes:
        if not self.tables:
            return _known_content(tuple(self.rows))
        self._pack()
        return _content(self.tables, is_large=self.size >= LARGE_BYTES)


def _bytes_of(row: Row) -> int:
    return ROW_BYTES + len(row.key) + len(row.value)


@lru_cache(maxsize=1 << 12)
def _known_content(rows: tuple[Row, ...]) -> bytes:
    return _content([Batch(rows).to_arrow()], is_large=False)


def _content(tables: list[pa.Table], *, is_large: bool) -> bytes:
    """A part has one schema, also if it has batches of rows and of columns."""
    schema, buffer = row_schema(), pa.BufferOutputStream()
    table = pa.concat_tables(each if each.schema == schema else each.cast(schema) for each in tables)
    options = {"use_dictionary": is_large, "write_statistics": is_large, "store_schema": is_large}
    pq.write_table(table, buffer, compression="zstd" if is_large else "none", **options)
    return bytes(buffer.getvalue())


class Parquet:
    """The columns of Row."""

    suffix = ".parquet"

    def writer(self) -> ParquetWriter:
        return ParquetWriter()

    def identities(self, content: bytes) -> list[Identity]:
        return list(_known_identities(content) if len(content) <= SMALL_BYTES else _identities(content))

    def rows(self, content: bytes) -> list[Row]:
        table = _table(content, list(Row._fields))
        return [Row(*values) for values in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _identities(content: bytes) -> tuple[Identity, ...]:
    table = _table(content, ["split", "offset"])
    return tuple(zip(table["split"].to_pylist(), table["offset"].to_pylist(), strict=True))


_known_identities = lru_cache(maxsize=1 << 12)(_identities)


def _table(content: bytes, columns: list[str]) -> pa.Table:
    """Without threads: a thread pool does not survive a fork, and few rows do not need one. Not by `read_table`, which
    takes six times as long for a few rows, because it expects a dataset of several files.
    """
    return pq.ParquetFile(pa.BufferReader(content)).read(columns=columns, use_threads=False)


PARQUET: Final = Parquet()
