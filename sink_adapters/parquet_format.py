"""Parquet behind the format protocol. The one file that needs pyarrow's Parquet; loaded only when it is asked for.

A Parquet file is complete only with its footer, so rows wait in memory until the part is rolled or pre-committed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from sinkproof.sink_adapters.file_formats import Identity
from sinkproof.sink_adapters.protocol import Batch, Row, row_schema

LARGE_BYTES: Final = 1 << 16  # of a part, from which on a compressor and dictionaries are worth being set up
SMALL_BYTES: Final = 1 << 14  # of a part that is remembered: a certification reads the same ones thousands of times


class ParquetWriter:
    __slots__ = ("size", "tables")

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.size = 0

    def add(self, batch: Batch) -> bytes:
        table = batch.to_arrow()
        if table.schema != row_schema():
            table = table.cast(row_schema())  # a part has one schema, and batches of rows and of columns may meet in it
        self.tables.append(table)
        self.size += table.nbytes
        return b""

    def finish(self) -> bytes:
        buffer = pa.BufferOutputStream()
        is_large = self.size >= LARGE_BYTES
        compression = "zstd" if is_large else "none"
        pq.write_table(pa.concat_tables(self.tables), buffer, compression=compression, use_dictionary=is_large)
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
    """Without threads: a pool of them does not survive a fork, and a few rows are not worth one. Not by `read_table`,
    which takes six times as long for a few rows: it looks for a dataset of several files.
    """
    return pq.ParquetFile(pa.BufferReader(content)).read(columns=columns, use_threads=False)


PARQUET: Final = Parquet()
