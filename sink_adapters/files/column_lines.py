"""Encodes a whole table at once into the same bytes as `row_formats.encode_row`, many times faster.

Every line is laid out in a byte matrix as wide as the longest line. Shorter fields are padded with zeros, which are
removed at the end. Text with control characters or non-ASCII characters is encoded row by row instead.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkproof.sink_adapters.strategies.snapshot_bytes import quoted

PLAIN: Final = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))  # JSON writes these unescaped
MYRIAD: Final = 10_000  # a number is written as its last four digits and the digits before them
LEADERS_MOST: Final = 1_000
WASTE_MOST: Final = 4  # bytes laid out for each byte written: one long text among many short ones would waste memory
WASTE_FREE_BYTES: Final = 1 << 16

Words = np.ndarray[Any, np.dtype[Any]]  # one item of fixed size (numpy's "V") for each row: moved as a whole
Field = bytes | Words  # equal for all rows, or one per row


def lines_of(table: pa.Table) -> bytes:
    split, offset, key, value, _ = (column.combine_chunks() for column in table.columns)
    key, value = _escaped(key), _escaped(value)
    if key is None or value is None:
        return _one_by_one(table)
    keys, values = _letters(key), _letters(value)
    if keys is None or values is None:
        return _one_by_one(table)
    fields = [b'{"split":', *_digits(split), b',"offset":', *_digits(offset)]
    return _joined([*fields, b',"key":"', keys, b'","value":"', values, b'"}\n'], table.num_rows)


def _joined(fields: list[Field], rows: int) -> bytes:
    """First the bytes that all lines share, then the others, field by field."""
    widths = [len(field) if isinstance(field, bytes) else field.itemsize for field in fields]
    width = sum(widths)
    room = _room(rows * width)
    shared = b"".join(
        [field if isinstance(field, bytes) else bytes(size) for field, size in zip(fields, widths, strict=True)]
    )
    np.frombuffer(room, f"V{width}", rows)[:] = np.frombuffer(shared, f"V{width}")
    start = 0
    for field, size in zip(fields, widths, strict=True):
        if not isinstance(field, bytes):
            np.ndarray((rows,), field.dtype, room, start, (width,))[:] = field
        start += size
    lines = bytes(memoryview(room)[: rows * width])
    return lines.translate(None, b"\0") if b"\0" in lines else lines


def _room(size: int) -> bytearray:
    """Reused between calls: new memory costs more than all the rest (one page fault per 4 KiB)."""
    room: bytearray = getattr(ROOM, "room", bytearray())
    if len(room) < size:
        room = ROOM.room = bytearray(size)
    return room


ROOM: Final = threading.local()


def _one_by_one(table: pa.Table) -> bytes:
    columns = [column.to_pylist() for column in table.columns[:4]]
    return "".join(
        [
            f'{{"split":{split},"offset":{offset},"key":{quoted(key)},"value":{quoted(value)}}}\n'
            for split, offset, key, value in zip(*columns, strict=True)
        ]
    ).encode()


# -- texts -----------------------------------------------------------------------------------------


def _escaped(texts: pa.Array) -> pa.Array | None:
    """Escaped as in JSON strings; None if escaping quotes and backslashes is not enough."""
    if texts.type != pa.string():
        texts = texts.cast(pa.string())
    _, data = _parts(texts)
    odd = bytes(data).translate(None, PLAIN)
    if odd.translate(None, b'\\"'):
        return None
    for letter in ("\\", '"') if odd else ():
        texts = pc.replace_substring(texts, pattern=letter, replacement="\\" + letter)
    return texts


def _parts(texts: pa.Array) -> tuple[Words, memoryview]:
    """The ends of the texts (one number more than texts: the first is the start), and the bytes of all."""
    _, ends, data = texts.buffers()
    within = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return within - within[0], memoryview(data or b"")[within[0] : within[-1]]


def _letters(texts: pa.Array) -> Field | None:
    """Each text padded with zeros to the length of the longest; None if that would be mostly zeros."""
    ends, data = _parts(texts)
    lengths = np.diff(ends)
    width = int(lengths.max())
    if width == 0:
        return b""
    if len(data) == width * len(texts):
        return np.frombuffer(data, f"V{width}")
    if width * len(texts) > WASTE_MOST * len(data) + WASTE_FREE_BYTES:
        return None
    letters = np.zeros((len(texts), width), dtype=np.uint8)
    letters[np.arange(width, dtype=np.int32) < lengths[:, None]] = np.frombuffer(data, np.uint8)
    return letters.view(f"V{width}")[:, 0]


# -- numbers ---------------------------------------------------------------------------------------


def _digits(numbers: pa.Array) -> list[Field]:
    """As decimal text. Rows of one batch have consecutive offsets, so that the last four digits have few prefixes."""
    dtype = np.dtype(f"i{numbers.type.bit_width // 8}")
    values = np.frombuffer(numbers.buffers()[1], dtype)[numbers.offset : numbers.offset + len(numbers)]
    least, most = int(values.min()), int(values.max())
    if least == most:
        return [b"%d" % least]
    first, last = least // MYRIAD, most // MYRIAD
    if first < 1 or last - first >= LEADERS_MOST:
        texts = list(map(str, values.tolist()))
        return [np.array(texts, dtype="S").view(f"V{max(map(len, texts))}")]
    rest = (values - first * MYRIAD).astype(np.uint32)
    leads = rest // np.uint32(MYRIAD)
    leaders = np.array([b"%d" % number for number in range(first, last + 1)])  # shorter ones end in zeros
    return [leaders.view(f"V{leaders.itemsize}")[leads], _four_digits()[rest - leads * np.uint32(MYRIAD)].view("V4")]


@cache
def _four_digits() -> Words:
    """0000 to 9999, each as a word of four letters."""
    return np.frombuffer(b"".join(b"%04d" % number for number in range(MYRIAD)), np.uint32)
