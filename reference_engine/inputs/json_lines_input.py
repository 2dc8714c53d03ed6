"""JSON-lines files, read by row number: one scan finds how many rows there are, and where to jump to."""

from __future__ import annotations

import codecs
import json
from bisect import bisect_right
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.json

from sinkproof.reference_engine.dataflow.columns import batch_of_columns
from sinkproof.reference_engine.dataflow.replayable_sources import InputError
from sinkproof.reference_engine.inputs.input_rows import Picked, Where
from sinkproof.sink_adapters.protocol import Batch

SCAN_BYTES: Final = 1 << 22  # also the most that a jump has to read in vain
READ_BYTES: Final = 1 << 20
BLANK: Final = b" \t\r\n"
SHOWN: Final = 60
KINDS: Final = {list: "a JSON array", str: "a JSON text", int: "a number", float: "a number"}
COLUMN_TYPES: Final = {str: pa.string(), int: pa.int64()}  # pyarrow writes their text as Python does


class LineMap:
    """Where the rows of one file are. A blank line is a row (and refused when it is read), but not at the end."""

    def __init__(self, path: str) -> None:
        self.path, self.where = path, partial(_line_of, path)
        self.rows = 0
        self.marks: list[tuple[int, int]] = [(0, 0)]  # (row, the byte where it begins), in order
        lines = position = 0
        with open(path, "rb", buffering=0) as file:
            while chunk := file.read(SCAN_BYTES):
                content = chunk.rstrip(BLANK)
                if content:
                    self.rows = lines + content.count(b"\n") + 1
                if ends := chunk.count(b"\n"):
                    lines += ends
                    self.marks.append((lines, position + chunk.rindex(b"\n") + 1))
                position += len(chunk)

    def check(self, picked: Picked) -> None:
        """Reads the first row, so that a misspelt name fails at once."""
        if self.rows:
            with open(self.path, "rb") as file:
                picked.refuse_missing(_record(file.readline(), 0, self.where), self.where(0))

    def reader(self, split: int, offset: int, picked: Picked) -> LineReader:
        row, start = self.marks[bisect_right(self.marks, offset, key=lambda mark: mark[0]) - 1]
        file = open(self.path, "rb", buffering=READ_BYTES)  # noqa: SIM115 the reader keeps and closes it
        file.seek(start)
        for _ in islice(file, offset - row):
            pass
        return LineReader(file, self.where, split, picked=picked, offset=offset)


class LineReader:
    """Goes on from where it stands."""

    def __init__(self, file: BinaryIO, where: Where, split: int, *, picked: Picked, offset: int) -> None:
        self.file, self.where, self.split, self.picked, self.offset = file, where, split, picked, offset
        self.by_column = picked.value is not None  # a whole record as JSON takes Python

    def read(self, count: int) -> Batch:
        """The next rows; fewer where the file has become shorter."""
        lines = list(islice(self.file, count))
        batch = self._columns(lines) if self.by_column and lines else None
        if batch is None:
            self.by_column = False  # the next batch would most probably fail as this one
            batch = self._one_by_one(lines)
        self.offset += len(lines)
        return batch

    def close(self) -> None:
        self.file.close()

    __del__ = close

    def _one_by_one(self, lines: list[bytes]) -> Batch:
        rows = [
            self.picked.row((self.split, offset), _record(line, offset, self.where), self.where)
            for offset, line in enumerate(lines, self.offset)
        ]
        return Batch.from_arrow(Batch(rows).to_arrow()) if rows else Batch(rows)

    def _columns(self, lines: list[bytes]) -> Batch | None:
        """Ten times faster; None where pyarrow would read otherwise than Python does, or not at all."""
        first = _record(lines[0], self.offset, self.where)
        kinds = {name: COLUMN_TYPES.get(type(first.get(name))) for name in self.picked.names}
        time = self.picked.event_time
        if None in kinds.values() or (time is not None and kinds[time] != pa.int64()):
            return None
        block = b"".join(lines)
        if not is_text(block):
            return None
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(block),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(list(kinds.items())), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowException:
            return None
        if table.num_rows != len(lines) or any(column.null_count for column in table.columns):
            return None
        return batch_of_columns(
            (self.split, self.offset),
            table.column(self.picked.key),
            table.column(self.picked.value),
            times=table.column(time) if time is not None else None,
        )


def is_text(block: bytes) -> bool:
    """A range that pyarrow does not check."""
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_of(path: str, offset: int) -> str:
    return f"{path}:{offset + 1}"


def _record(line: bytes, offset: int, where: Where) -> Mapping[str, Any]:
    try:
        record = json.loads(line.decode() if offset else line.removeprefix(codecs.BOM_UTF8).decode())
    except (ValueError, RecursionError) as error:
        why = str(error) if line.strip(BLANK) else "the line is blank"
        raise InputError(
            f"{where(offset)}: no JSON ({why}): {_shown(line)}. Each line must be one JSON object"
        ) from error
    if not isinstance(record, dict):
        raise InputError(
            f"{where(offset)}: {KINDS.get(type(record), 'a scalar')}, no JSON object: {_shown(line)}. "
            "Each line must be one, as `jq -c '.[]'` writes them"
        )
    return record


def _shown(line: bytes) -> str:
    text = line.strip(BLANK).decode(errors="replace")
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
