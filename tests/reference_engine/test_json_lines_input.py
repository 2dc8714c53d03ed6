"""JSON lines as input: whichever way they are read they make the same rows, and a wrong line is named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.reference_engine.dataflow.replayable_sources import InputError, InputReader
from sinkproof.reference_engine.inputs import json_lines_input
from sinkproof.reference_engine.inputs.file_input import FileInput
from sinkproof.sink_adapters.protocol import Row


def lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def visits(count: int, *, first: int = 0) -> list[dict[str, Any]]:
    return [{"user": f"u{at % 3}", "n": at, "page": f"/{at}"} for at in range(first, first + count)]


def everything(source: FileInput) -> list[Row]:
    """As a source reads it."""
    reader, read = InputReader(source, [0]), []
    while at := reader.next():
        read += source.batch(*at).rows
    return read


def refusal(path: Path, **options: Any) -> str:
    """What is said when the input is made, or read."""
    with pytest.raises(InputError) as refused:
        everything(FileInput(path, **{"key": "user", **options}))
    return str(refused.value)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text("ab\"\\ä\n", max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text("kl", max_size=2), inner, max_size=2)),
    max_leaves=4,
)  # fmt: skip
keys = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(), st.booleans())


@pytest.mark.slow
@given(st.lists(st.tuples(keys, json_values, st.integers(0, 1 << 60)), min_size=1, max_size=12), st.integers(1, 5))
def test_reading_by_column_gives_what_reading_one_by_one_gives(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[Any, Any, int]], batch_rows: int
) -> None:
    path = lines(tmp_path_factory.mktemp("any") / "a.jsonl", [{"k": k, "v": v, "t": t} for k, v, t in records])
    read = everything(FileInput(path, key="k", value="v", event_time="t", batch_rows=batch_rows))

    def text(value: Any) -> str:
        compact = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        return value if isinstance(value, str) else compact

    assert [Row(0, at, text(k), text(v), t) for at, (k, v, t) in enumerate(records)] == read


def test_columns_of_one_type_are_read_by_column(tmp_path: Path) -> None:
    """Otherwise the test above would compare one way with itself, and a pipeline would be eight times slower."""
    path = lines(tmp_path / "a.jsonl", visits(6))
    reader = json_lines_input.LineMap(str(path)).reader(0, 0, FileInput(path, key="user", value="n").picked)
    reader.read(3)
    assert reader.by_column


@pytest.mark.parametrize("time", ["1970-01-01T00:00:02", "1970-01-01T01:00:02+01:00", 2000, 2000.0])
def test_a_time_is_a_number_of_milliseconds_or_iso_text(tmp_path: Path, time: Any) -> None:
    path = lines(tmp_path / "a.jsonl", [{"user": "a", "t": time}])
    assert [2000] == [
        row.event_time_ms for row in everything(FileInput(path, key="user", value="user", event_time="t"))
    ]


def test_blank_lines_at_the_end_and_no_line_feed_there_are_fine(tmp_path: Path) -> None:
    for number, end in enumerate(("", "\n", "\r\n \n\n")):
        path = tmp_path / f"{number}.jsonl"
        path.write_text('\ufeff{"user":"a"}\r\n{"user":"b"}' + end)
        assert ["a", "b"] == [row.key for row in everything(FileInput(path, key="user"))]


def test_lines_added_later_are_read_by_the_next_run(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", visits(3))
    first = FileInput(path, key="user", value="n")
    with path.open("a") as file:
        file.write(json.dumps(visits(1, first=3)[0]) + "\n")
    assert ["0", "1", "2"] == [row.value for row in everything(first)]
    assert 4 == FileInput(path, key="user", earlier=first.manifest).length(0)


@pytest.mark.parametrize("left", [0, 10], ids=["to nothing", "in a line"])
def test_a_file_that_is_cut_while_it_is_read_ends_in_an_error(
    tmp_path: Path, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines_input, "READ_BYTES", 64)  # so that not all of it is in the process by then
    path = lines(tmp_path / "a.jsonl", visits(90))
    source = FileInput(path, key="user", value="n", batch_rows=30)
    source.batch(0, 0)
    os.truncate(path, path.stat().st_size // 2 + left)
    with pytest.raises(InputError, match=r"a.jsonl(:\d+: no JSON| has changed since .*it ends before row)"):
        [source.batch(0, offset) for offset in (30, 60)]


def test_a_column_missing_further_down_is_refused_with_its_line(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [*visits(2), {"page": "/"}])
    for options in ({}, {"value": "page"}):
        assert f"{path}:3: no column 'user'. There are: page" == refusal(path, **options)


WRONG_LINES = {
    "the line is blank": "",
    "Expecting ',' delimiter": '{"user":"a" "n":1}',
    "a JSON array, no JSON object": '[{"user":"a"}]',
    "a JSON text, no JSON object": '"user"',
    "a number, no JSON object": "1.5",
    "a scalar, no JSON object": "null",
    "Extra data": '{"user":"a","n":1}{"user":"b","n":2}',
    "half of a surrogate pair": '{"user":"\\ud800","n":1}',
    "recursion": '{"user":' + "[" * 100_000,
}


@pytest.mark.parametrize("why", WRONG_LINES)
@pytest.mark.parametrize("options", [{}, {"value": "n"}], ids=["whole", "column"])
def test_a_wrong_line_is_refused_with_its_place(tmp_path: Path, why: str, options: dict[str, str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"user":"a","n":1}}\n{WRONG_LINES[why]}\n{{"user":"a","n":1}}\n')
    said = refusal(path, **options)
    assert (said[: len(f"{path}:2: ")], True) == (f"{path}:2: ", why in said)


def test_bytes_that_are_no_text_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"user":"a","n":1}\n{"user":"\xff","n":1}\n')
    for options in ({}, {"value": "n"}):
        assert f"{path}:2: no JSON ('utf-8' codec" in refusal(path, **options)


@pytest.mark.parametrize("time", ["noon", None, True, [1], 1e300])
def test_a_time_that_is_none_is_refused(tmp_path: Path, time: Any) -> None:
    path = lines(tmp_path / "a.jsonl", [{"user": "a", "t": time}])
    for options in ({}, {"value": "user"}):
        said = refusal(path, event_time="t", **options)
        assert said.startswith(f"{path}:1: the event time 't' is {time!r}")
