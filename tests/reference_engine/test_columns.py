"""Columns give what rows give: on the wire, by key, counted, and in files."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.reference_engine.dataflow.columns import (
    LONG_KEY_BYTES,
    MANY_KEYS,
    SCHEMA,
    GeneratedColumns,
    array_of_texts,
    decode,
    encode,
    groups_of,
)
from sinkproof.reference_engine.dataflow.job_graph import SubtaskOutput
from sinkproof.reference_engine.dataflow.key_groups import key_group
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.sink_adapters.files.arrow_format import ARROW
from sinkproof.sink_adapters.files.column_lines import lines_of
from sinkproof.sink_adapters.files.parquet_format import PARQUET
from sinkproof.sink_adapters.files.row_formats import JSON_LINES, FileFormat, encode_lines
from sinkproof.sink_adapters.protocol import Batch, Row

FORMATS = pytest.mark.parametrize("form", [JSON_LINES, ARROW, PARQUET], ids=["JSON lines", "Arrow", "Parquet"])
characters = st.characters(exclude_categories=["Cs"])  # half characters have no bytes, and so no column
awkward = st.sampled_from(["", "a", "bb", '"', "\\", '\\"', "\0", "\x7f", "\n", "ä", "🎈", "x" * 300])
texts = st.one_of(awkward, st.text(characters, max_size=9), st.text("abc", max_size=2))
offsets = st.one_of(st.integers(0, 20), st.integers(9_990, 10_010), st.integers(0, 1 << 50))
times = st.integers(-(1 << 60), 1 << 60)
rows = st.lists(st.builds(Row, st.integers(0, 12), offsets, texts, texts, times), min_size=1, max_size=30)


def by_rows(made: list[Row]) -> Batch:
    return Batch(made)


def by_columns(made: list[Row]) -> Batch:
    return Batch.from_arrow(Batch(made).to_arrow())


def in_pieces(made: list[Row]) -> Batch:
    """As a user may make it: in several chunks, keys in a dictionary, wider numbers."""
    tables = [Batch(part).to_arrow() for part in (made[:1], made[1:]) if part]
    table = pa.concat_tables(tables)
    table = table.set_column(0, "split", table.column(0).cast(pa.int64()))
    return Batch.from_arrow(table.set_column(2, "key", table.column(2).dictionary_encode()))


WAYS = (by_rows, by_columns, in_pieces)


@pytest.mark.slow
@given(rows)
def test_the_wire_brings_the_rows_as_they_were(made: list[Row]) -> None:
    for way in WAYS:
        arrived = decode(memoryview(bytes(encode(way(made)))))
        assert (tuple(made), True, SCHEMA) == (arrived.rows, arrived.columnar, arrived.to_arrow().schema)


def test_an_empty_batch_has_both_views() -> None:
    table = Batch([]).to_arrow()
    table.validate(full=True)
    assert (0, SCHEMA, ()) == (table.num_rows, table.schema, Batch.from_arrow(table).rows)


def test_what_arrives_lies_in_the_bytes_that_were_given() -> None:
    data = bytearray(bytes(encode(Batch([Row(0, 0, "before", "v")]))))
    arrived = decode(data)
    data[data.index(b"before") : data.index(b"before") + 6] = b"behind"
    assert ["behind"] == [row.key for row in arrived.rows]


@pytest.mark.slow
@given(rows, st.integers(1, 5))
def test_columns_are_routed_as_rows_are(made: list[Row], parallelism: int) -> None:
    output = SubtaskOutput(targets=tuple(range(7, 7 + parallelism)))
    routed = [[(to, part.rows) for to, part in output.route(way(made))] for way in WAYS]
    assert [routed[0]] * len(WAYS) == routed


@pytest.mark.slow
@given(st.lists(st.one_of(texts, st.binary(max_size=3).map(bytes.hex)), min_size=1, max_size=20), st.booleans())
def test_many_keys_get_the_groups_that_each_gets_alone(some: list[str], long: bool) -> None:
    short = [key for key in some if len(key.encode()) <= LONG_KEY_BYTES]
    keys = [*(some if long else short), *(f"key {number}" for number in range(MANY_KEYS))]
    for array in (array_of_texts(keys), array_of_texts(["before", *keys])[1:]):
        assert [key_group(key) for key in keys] == groups_of(array).tolist()


def test_key_groups_stay_what_older_checkpoints_hold() -> None:
    """State lies in key groups: another function would give it to subtasks that never see its keys."""
    assert [0, 55, 85] == [key_group(key) for key in ("", "a", "k0000042")]


@pytest.mark.slow
@given(st.lists(rows, min_size=1, max_size=4))
def test_columns_are_counted_as_rows_are(batches: list[list[Row]]) -> None:
    counters = [KeyedCount() for _ in WAYS]
    for made in batches:
        counted = [counter.apply(way(made)).rows for counter, way in zip(counters, WAYS, strict=True)]
        assert [counted[0]] * len(WAYS) == counted
    states = [counter.capture() for counter in counters]
    assert [states[0]] * len(WAYS) == states


def test_a_count_goes_on_in_columns_where_rows_have_left_it() -> None:
    first, second = KeyedCount(), KeyedCount()
    first.apply(by_rows([Row(0, 0, "ada", ""), Row(0, 1, "bob", ""), Row(0, 2, "ada", "")]))
    second.restore(first.capture().items())
    went_on = second.apply(by_columns([Row(0, 3, "cyd", ""), Row(0, 4, "ada", ""), Row(0, 5, "ada", "")]))
    assert [("cyd", "1"), ("ada", "3"), ("ada", "4")] == [(row.key, row.value) for row in went_on.rows]


# -- files -----------------------------------------------------------------------------------------


@given(rows)
def test_lines_of_columns_are_those_of_rows_to_the_byte(made: list[Row]) -> None:
    expected = encode_lines(made)
    assert [expected] * len(WAYS) == [lines_of(way(made).to_arrow()) for way in WAYS]


@pytest.mark.parametrize("start", [0, 9_995, 99_990, 123_456_789_990, (1 << 40) - 30], ids=str)
@pytest.mark.parametrize("value", ["{}", "{}%", '{{"n":"{}"}}', "ä{}"])
def test_a_stretch_of_a_split_is_written_as_rows_would_be(start: int, value: str) -> None:
    made = [Row(3, at, f"k{at % 3}", value.format(at - start)) for at in range(start, start + 30)]
    writer = JSON_LINES.writer()
    assert encode_lines(made) == writer.add(by_columns(made))
    assert len(encode_lines(made)) == writer.size


@pytest.mark.slow
@FORMATS
@given(st.lists(rows, min_size=1, max_size=5))
def test_a_file_holds_what_was_added_whichever_way_it_came(form: FileFormat, batches: list[list[Row]]) -> None:
    writer = form.writer()
    ways = [WAYS[number % len(WAYS)] for number in range(len(batches))]
    content = b"".join([*(writer.add(way(made)) for way, made in zip(ways, batches, strict=True)), writer.finish()])
    every = [row for made in batches for row in made]
    assert [(row.split, row.offset) for row in every] == form.identities(content)
    assert [row[:4] for row in every] == [row[:4] for row in form.rows(content)]  # JSON lines leave the time out


@pytest.mark.parametrize(("count", "compression"), [(2, "UNCOMPRESSED"), (5_000, "ZSTD")])
def test_only_large_parquet_files_are_compressed(count: int, compression: str) -> None:
    made = [Row(0, offset, "key", f"value {offset}") for offset in range(count)]
    writer = PARQUET.writer()
    writer.add(Batch(made))
    content = writer.finish()
    assert [(0, offset) for offset in range(count)] == PARQUET.identities(content)
    assert compression == pq.ParquetFile(pa.BufferReader(content)).metadata.row_group(0).column(3).compression


def test_a_torn_arrow_file_reads_as_its_whole_batches() -> None:
    writer = ARROW.writer()
    pieces = [writer.add(by_columns([Row(0, at, "k", "v"), Row(0, at + 1, "k", "v")])) for at in (0, 2)]
    content, after_first = b"".join(pieces), len(pieces[0])
    whole = [len(ARROW.identities(content[:cut])) for cut in range(len(content) + 1)]
    assert [0] * after_first + [2] * (len(content) - after_first) + [4] == whole
    assert [4] == [len(ARROW.rows(content + writer.finish()))]


# -- generated -------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 70), st.integers(0, 1), st.integers(0, (1 << 40) - 1), st.integers(1, 20), st.integers(1, 9))
def test_a_generated_row_does_not_depend_on_where_batches_are_cut(
    seed: int, split: int, offset: int, rows_ahead: int, keys: int
) -> None:
    whole = GeneratedColumns(seed=seed, batch_rows=40, keys=keys).batch(split, offset).rows
    ahead = GeneratedColumns(seed=seed, batch_rows=3, keys=keys)
    if len(whole) > rows_ahead:
        assert whole[rows_ahead : rows_ahead + 3] == ahead.batch(split, offset + rows_ahead).rows
    assert [(split, at, at) for at in range(offset, offset + len(whole))] == [(r[0], r[1], r[4]) for r in whole]


def test_generated_columns_are_routed_by_the_groups_of_their_keys() -> None:
    made = GeneratedColumns(seed=3, keys=500, batch_rows=2000).batch(1, 77)
    output = SubtaskOutput(targets=(1, 2, 3))
    expected = [(to, part.rows) for to, part in output.route(Batch(made.rows))]
    assert (3, expected) == (len(expected), [(to, part.rows) for to, part in output.route(made)])


def test_generated_splits_and_seeds_differ_and_the_last_batch_is_short() -> None:
    source = GeneratedColumns(seed=1, rows_per_split=25, batch_rows=10, keys=100)
    values = {
        tuple(row.value for row in made.rows)
        for made in (source.batch(0, 0), source.batch(1, 0), GeneratedColumns(seed=2, batch_rows=10).batch(0, 0))
    }
    assert (3, 25, [10, 10, 5]) == (len(values), source.length(0), [len(source.batch(0, at)) for at in (0, 10, 20)])
    assert 100 == len({row.key for row in GeneratedColumns(keys=100).batch(0, 0).rows})


@pytest.mark.parametrize("wrong", [{"keys": 0}, {"keys": 1 << 30}, {"rows_per_split": 1 << 41}, {"batch_rows": 0}])
def test_a_generator_of_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GeneratedColumns(**wrong)


HOT_PATH = """
import sys
from sinkproof.reference_engine.dataflow.columns import GeneratedColumns, decode, encode
from sinkproof.reference_engine.dataflow.job_graph import SubtaskOutput
from sinkproof.reference_engine.dataflow.operators import KeyedCount
from sinkproof.sink_adapters.files.arrow_format import ARROW
from sinkproof.sink_adapters.files.row_formats import JSON_LINES
from sinkproof.sink_adapters.protocol import Batch
for _, part in SubtaskOutput(targets=(1, 2)).route(GeneratedColumns().batch(0, 0)):
    counted = KeyedCount().apply(decode(encode(part)))
    for form in (ARROW, JSON_LINES):
        form.writer().add(counted)
encode(Batch(counted.rows[:2]))
assert "pandas" not in sys.modules
"""


def test_the_hot_path_imports_no_pandas() -> None:
    """It would cost every attempt 170 ms: eight times what a recovery takes."""
    assert 0 == subprocess.run([sys.executable, "-c", HOT_PATH], check=False).returncode
