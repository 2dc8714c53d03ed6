"""The Arrow IPC stream format: one message per batch, for ten million rows a second.

A stream is a schema followed by one message per batch, so that it can be appended to like JSON lines, and a file that a
crash has torn is read up to its last whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from sinkproof.sink_adapters.protocol import Batch, Identity, Row, row_schema

START: Final = row_schema().serialize().to_pybytes()
END: Final = b"\xff\xff\xff\xff\0\0\0\0"  # a message of no bytes


class ArrowWriter:
    def __init__(self) -> None:
        self.size = 0

    def add(self, batch: Batch) -> bytes:
        table = batch.to_arrow()
        if table.schema != row_schema():
            table = table.cast(row_schema())
        messages = [bytes(part.serialize()) for part in table.to_batches()]
        data = b"".join(messages if self.size else [START, *messages])
        self.size += len(data)
        return data

    def finish(self) -> bytes:
        return END


class Arrow:
    """The columns of Row."""

    suffix = ".arrow"

    def writer(self) -> ArrowWriter:
        return ArrowWriter()

    def identities(self, content: bytes) -> list[Identity]:
        return [
            pair
            for batch in _whole_batches(content)
            for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        ]

    def rows(self, content: bytes) -> list[Row]:
        columns = (batch.columns for batch in _whole_batches(content))
        return [Row(*values) for of in columns for values in zip(*(column.to_pylist() for column in of), strict=True)]


def _whole_batches(content: bytes) -> Iterator[pa.RecordBatch]:
    """Up to the end, or to the tear: in the schema, in a message's header, or in its body."""
    try:
        stream = pa.ipc.open_stream(content)
        while True:
            yield stream.read_next_batch()
    except (StopIteration, pa.ArrowInvalid, OSError):
        return


ARROW: Final = Arrow()
