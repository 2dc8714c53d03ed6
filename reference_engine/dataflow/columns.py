"""Batches as Arrow columns: the engine's data path at millions of rows a second. All of numpy and pyarrow is here.

Every function on columns gives the same rows as the row-wise code (tests/reference_engine/test_columns.py). Numbers go
between the two libraries as buffers: `pyarrow.array(ndarray)` and `to_numpy()` import pandas at their first use, which
costs every new process 170 ms.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sinkproof.reference_engine.dataflow.key_groups import KEY_GROUPS, key_group
from sinkproof.reference_engine.dataflow.replayable_sources import Input
from sinkproof.sink_adapters.protocol import Batch, row_schema

SCHEMA: Final = row_schema()
KEY: Final = SCHEMA.get_field_index("key")
VALUE: Final = SCHEMA.get_field_index("value")
TEXT_BYTES: Final = 8  # of every generated key and value: a word, which is gathered ten times faster than a text
VALUES: Final = 4096  # distinct ones that are generated: their table fits into the first cache
KEYS_MOST: Final = 10 ** (TEXT_BYTES - 1)

MANY_KEYS: Final = 256  # from here on one numpy call per byte is cheaper than one Python call per key
LONG_KEY_BYTES: Final = 64

Numbers = np.ndarray[Any, np.dtype[Any]]


class GroupedBatch(Batch):
    """A columnar batch with key groups that were computed together with its rows."""

    __slots__ = ("groups",)
    groups: Numbers  # of each row


# -- on the wire -----------------------------------------------------------------------------------


def encode(batch: Batch) -> pa.Buffer:
    """One Arrow IPC message, without the schema, which both ends know."""
    return record_batch(batch).serialize()


def decode(data: Any) -> Batch:
    """The batch lies in the bytes given (anything with the buffer protocol), which must not change any more."""
    return _batch(pa.ipc.read_record_batch(pa.py_buffer(data), SCHEMA))


def record_batch(batch: Batch) -> pa.RecordBatch:
    """In one piece, with exactly the types of SCHEMA."""
    table = batch.to_arrow()
    if table.schema != SCHEMA:
        table = table.cast(SCHEMA)
    pieces = table.to_batches()
    return pieces[0] if len(pieces) == 1 else table.combine_chunks().to_batches()[0]


def batch_of_columns(at: tuple[int, int], keys: Any, values: Any, *, times: Any | None = None) -> Batch:
    """Rows of one split from an offset on (`at`), with columns that can be cast to what SCHEMA says. No time: 0."""
    split, offset = at
    count = len(keys)
    offsets = np.arange(offset, offset + count, dtype=np.int64)
    splits = array_of(np.full(count, split, dtype=np.int32), pa.int32())
    if times is None:
        times = array_of(np.zeros(count, dtype=np.int64), pa.int64())
    columns = zip((splits, array_of(offsets, pa.int64()), keys, values, times), SCHEMA, strict=True)
    return Batch.from_arrow(pa.Table.from_arrays([column.cast(field.type) for column, field in columns], schema=SCHEMA))


# -- by key ----------------------------------------------------------------------------------------


def route(batch: Batch, parallelism: int) -> list[tuple[int, Batch]]:
    """(owner of the key groups, its part of the rows), without empty parts; each part keeps the order of its rows."""
    owner_of = np.arange(KEY_GROUPS, dtype=np.uint16) * parallelism // KEY_GROUPS
    owners = owner_of[_groups(batch)]
    sizes = np.bincount(owners, minlength=parallelism).tolist()
    if len(batch) in sizes:
        return [(sizes.index(len(batch)), batch)]
    order = np.argsort(owners, kind="stable")
    rows = record_batch(batch).take(array_of(order, pa.int64()))
    ends = np.cumsum(sizes).tolist()
    parts = [(owner, ends[owner] - size, size) for owner, size in enumerate(sizes) if size]
    return [(owner, _batch(rows.slice(start, size))) for owner, start, size in parts]


def _groups(batch: Batch) -> Numbers:
    """The key group of each row."""
    if isinstance(batch, GroupedBatch):
        return batch.groups
    keys = _encoded_keys(batch)
    return groups_of(keys.dictionary)[numbers_of(keys.indices)]


def groups_of(texts: pa.Array) -> Numbers:
    """`key_group` of each. Many are hashed side by side, byte by byte; few, or long ones, one by one."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(ends)
    if len(texts) < MANY_KEYS or lengths.max() > LONG_KEY_BYTES:
        return np.array([key_group(text) for text in texts.to_pylist()], dtype=np.uint8)
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    table = _checksum_table()
    checksums = np.full(len(texts), 0xFFFFFFFF, dtype=np.uint32)
    for place in range(lengths.max()):
        longer = np.flatnonzero(lengths > place)
        old = checksums[longer]
        checksums[longer] = table[(old ^ data[ends[longer] + place]) & 0xFF] ^ (old >> 8)
    return _groups_of_checksums(checksums ^ np.uint32(0xFFFFFFFF))


def _groups_of_checksums(checksums: Numbers) -> Numbers:
    """The rest of `key_group`, in 32 bits that wrap around."""
    mixed: Numbers = checksums ^ checksums >> 16
    mixed = mixed * np.uint32(0x85EBCA6B)
    mixed ^= mixed >> 13
    mixed = mixed * np.uint32(0xC2B2AE35)
    mixed ^= mixed >> 16
    groups: Numbers = (mixed % KEY_GROUPS).astype(np.uint8)
    return groups


@lru_cache(maxsize=1)
def _checksum_table() -> Numbers:
    """What CRC-32 makes of each byte, eight bits at a time."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0xEDB88320) ^ (table >> 1), table >> 1)
    return table


def distinct_keys(batch: Batch) -> tuple[list[str], Numbers]:
    """The keys of the batch, each once, and which of them each row has."""
    keys = _encoded_keys(batch)
    return keys.dictionary.to_pylist(), numbers_of(keys.indices)


def _encoded_keys(batch: Batch) -> pa.DictionaryArray:
    column = batch.to_arrow().column(KEY).combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())  # a dictionary made elsewhere may hold a key twice
    return column.dictionary_encode()


def count_up(totals: array[int], places: Sequence[int | None], codes: Numbers) -> Numbers:
    """For each row how many its key has had by then. `totals` is brought up to date; code c has place places[c]."""
    have = np.frombuffer(totals, np.int64)
    at = np.array(places, dtype=np.intp)
    ranks, counts = _occurrences(codes, len(at))
    seen = have[at][codes] + ranks
    have[at] += counts
    return seen


def _occurrences(codes: Numbers, distinct: int) -> tuple[Numbers, Numbers]:
    """For each row its rank among the rows of its code, from 1; and how many rows each code has."""
    small = codes.astype(np.uint16) if distinct < 1 << 16 else codes  # numpy sorts 16 bits by radix: 5 times faster
    order = np.argsort(small, kind="stable")
    counts = np.bincount(codes, minlength=distinct)
    before = np.cumsum(counts) - counts
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(1, len(codes) + 1) - np.repeat(before, counts)
    return ranks, counts


def with_values(batch: Batch, values: Numbers) -> Batch:
    """The same rows with these numbers, as text, for their values."""
    return Batch.from_arrow(
        batch.to_arrow().set_column(VALUE, SCHEMA.field(VALUE), array_of(values, pa.int64()).cast(pa.string()))
    )


# -- numbers between the two libraries -------------------------------------------------------------


def array_of(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    """Zero copy; the dtype must be what Arrow lays out for `kind`."""
    assert numbers.dtype.itemsize * 8 == kind.bit_width, (numbers.dtype, kind)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def array_of_texts(texts: Sequence[str]) -> pa.Array:
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def numbers_of(array: pa.Array) -> Numbers:
    """Zero copy, of an array of numbers without nulls."""
    dtype = np.dtype(f"i{array.type.bit_width // 8}")
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _batch(rows: pa.RecordBatch) -> Batch:
    return Batch.from_arrow(pa.Table.from_batches([rows], SCHEMA))


# -- generated rows --------------------------------------------------------------------------------


class GeneratedColumns(Input):
    """Seeded rows, each a pure function of (seed, split, offset), wherever batches are cut.

    Keys are `k0000000` and on, each as likely as any other; the event time of a row is its offset.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        splits: int = 2,
        rows_per_split: int = 1 << 40,
        batch_rows: int = 10_000,
        keys: int = 1000,
    ) -> None:
        if not 1 <= keys <= KEYS_MOST:
            raise ValueError(f"keys={keys}: there must be 1 to {KEYS_MOST} keys")
        if splits < 1 or batch_rows < 1 or not 0 <= rows_per_split <= 1 << 40:
            raise ValueError(
                f"splits={splits}, batch_rows={batch_rows}, rows_per_split={rows_per_split}: "
                "at least one split, one row in a batch, and at most 2**40 rows in a split"
            )
        self.seed, self.splits, self.rows_per_split = seed, splits, rows_per_split
        self.batch_rows, self.keys = batch_rows, keys

    def length(self, split: int) -> int:
        return self.rows_per_split

    def batch(self, split: int, offset: int) -> Batch:
        count = min(self.batch_rows, self.rows_per_split - offset)
        steps, split_column, ends = _constants(self.batch_rows, split)
        offsets = steps[:count] + offset
        noise = _noise(offsets, self.seed, split)
        picked = (noise >> np.uint64(32)) * np.uint64(self.keys) >> np.uint64(32)
        keys, groups = _universe(self.keys)
        offset_column = array_of(offsets, pa.int64())
        columns = [
            split_column.slice(0, count),
            offset_column,
            pa.StringArray.from_buffers(count, ends, pa.py_buffer(keys[picked])),
            pa.StringArray.from_buffers(count, ends, pa.py_buffer(_words("v", VALUES)[noise & np.uint64(VALUES - 1)])),
            offset_column,
        ]
        batch = GroupedBatch.from_arrow(pa.Table.from_arrays(columns, schema=SCHEMA))
        batch.groups = groups[picked]
        return batch


def _noise(offsets: Numbers, seed: int, split: int) -> Numbers:
    """64 well mixed bits for each row: the end of MurmurHash3, as everywhere here. In place: half the time."""
    start = (seed * 0x9E3779B97F4A7C15 + split * 0xD1B54A32D192ED03 + (1 << 32)) & (1 << 64) - 1
    bits = offsets.astype(np.uint64)
    bits += np.uint64(start)
    for factor, shift in ((0xFF51AFD7ED558CCD, 33), (0xC4CEB9FE1A85EC53, 33)):
        bits *= np.uint64(factor)
        bits ^= bits >> np.uint64(shift)
    return bits


@lru_cache(maxsize=64)
def _constants(batch_rows: int, split: int) -> tuple[Numbers, pa.Array, pa.Buffer]:
    """What every batch of a split shares: 0, 1, 2 and on; the column of its split; where its texts end."""
    steps = np.arange(batch_rows, dtype=np.int64)
    ends = np.arange(batch_rows + 1, dtype=np.int32) * np.int32(TEXT_BYTES)
    return steps, array_of(np.full(batch_rows, split, dtype=np.int32), pa.int32()), pa.py_buffer(ends)


@lru_cache(maxsize=4)
def _words(letter: str, count: int) -> Numbers:
    """`<letter>0000000` and on, each a word of eight bytes."""
    numbers = np.arange(count)
    texts = np.full((count, TEXT_BYTES), ord(letter), dtype=np.uint8)
    for place in range(1, TEXT_BYTES):
        texts[:, TEXT_BYTES - place] = numbers % 10 + ord("0")
        numbers //= 10
    return texts.view(np.uint64)[:, 0]


@lru_cache(maxsize=4)
def _universe(keys: int) -> tuple[Numbers, Numbers]:
    """The words of all keys, and the key group of each."""
    words = _words("k", keys)
    ends = np.arange(keys + 1, dtype=np.int32) * np.int32(TEXT_BYTES)
    return words, groups_of(pa.StringArray.from_buffers(keys, pa.py_buffer(ends), pa.py_buffer(words)))
