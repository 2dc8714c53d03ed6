"""Defines the protocol of file formats, and the JSON lines format. Parquet and Arrow have files of their own, because
they need libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from sinkproof.sink_adapters.protocol import Batch, Identity, Row
from sinkproof.sink_adapters.strategies.snapshot_bytes import quoted


class PartWriter(Protocol):
    """One part file in progress. `size`: in bytes, perhaps estimated; decides when the part is rolled."""

    size: int

    def add(self, batch: Batch) -> bytes:
        """The bytes to write to the file now; may be empty."""

    def finish(self) -> bytes:
        """The bytes that complete the file."""


class FileFormat(Protocol):
    suffix: str

    def writer(self) -> PartWriter: ...

    def identities(self, content: bytes) -> list[Identity]:
        """(split, offset) of every whole row, in order."""

    def rows(self, content: bytes) -> list[Row]: ...


SMALL_BYTES: Final = 1 << 14  # of a content of which the rows are cached: a certification reads equal ones often
# Only whole lines count: a kill or a power loss may tear one. Within a line every line feed is escaped, so that a brace
# and a line feed together can only be its end.
LINE: Final = re.compile(rb'^\{"split":(\d+),"offset":(\d+),.*\}\n', re.MULTILINE)
KEYED_LINE: Final = re.compile(rb'^\{"split":(\d+),"offset":(\d+),.*,"id":("(?:[^"\\]|\\.)*")\}\n', re.MULTILINE)


def encode_row(row: Row) -> str:
    split, offset, key, value, _ = row
    return f'{{"split":{split},"offset":{offset},"key":{quoted(key)},"value":{quoted(value)}}}\n'


def encode_lines(rows: Iterable[Row]) -> bytes:
    return "".join(map(encode_row, rows)).encode()


def encode_keyed(entries: Iterable[tuple[str, Row]]) -> bytes:
    """Lines that also carry the key under which they replace each other."""
    return "".join([f'{encode_row(row)[:-2]},"id":{quoted(key)}}}\n' for key, row in entries]).encode()


class JsonLinesWriter:
    def __init__(self) -> None:
        self.size = 0

    def add(self, batch: Batch) -> bytes:
        data = _lines_of_columns(batch) if batch.columnar else encode_lines(batch.rows)
        self.size += len(data)
        return data

    def finish(self) -> bytes:
        return b""


def _lines_of_columns(batch: Batch) -> bytes:
    from sinkproof.sink_adapters.files.column_lines import (
        lines_of,  # imported here: row batches need neither numpy nor pyarrow
    )

    return lines_of(batch.to_arrow())


class JsonLines:
    """One object a line: split, offset, key, value."""

    suffix = ".jsonl"

    def writer(self) -> JsonLinesWriter:
        return JsonLinesWriter()

    def identities(self, content: bytes) -> list[Identity]:
        return [(int(split), int(offset)) for split, offset in LINE.findall(content)]

    def rows(self, content: bytes) -> list[Row]:
        return list(_known_rows(content) if len(content) <= SMALL_BYTES else _rows(content))


class _JsonRow(msgspec.Struct):
    split: int
    offset: int
    key: str
    value: str
    id: str = ""


_decode = msgspec.json.Decoder(_JsonRow).decode


def _rows(content: bytes) -> tuple[Row, ...]:
    return tuple([_row(_decode(match[0])) for match in LINE.finditer(content)])


def _row(line: _JsonRow) -> Row:
    return Row(line.split, line.offset, line.key, line.value)


_known_rows = lru_cache(maxsize=1 << 12)(_rows)


JSON_LINES: Final = JsonLines()


@lru_cache(maxsize=1 << 10)
def keyed_rows(content: bytes) -> tuple[tuple[str, Row], ...]:
    """What `encode_keyed` was given."""
    lines = [_decode(match[0]) for match in KEYED_LINE.finditer(content)]
    return tuple([(line.id, _row(line)) for line in lines])
