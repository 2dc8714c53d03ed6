"""A user's files as input: what rows they make, where a replay goes on, and what is refused, in which words."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput, InputError, InputReader
from sinkproof.reference_engine.inputs import json_lines_input
from sinkproof.reference_engine.inputs.file_input import FileInput
from sinkproof.sink_adapters.protocol import Row


def lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def parquet(path: Path, records: list[Any]) -> Path:
    pq.write_table(pa.Table.from_pylist(records), path, row_group_size=4)
    return path


class Kind(NamedTuple):
    write: Callable[[Path, list[Any]], Path]
    suffix: str


BOTH = [Kind(lines, ".jsonl"), Kind(parquet, ".parquet")]
KINDS = pytest.mark.parametrize("kind", BOTH, ids=["JSON lines", "Parquet"])


def visits(count: int, *, first: int = 0) -> list[dict[str, Any]]:
    return [{"user": f"u{at % 3}", "n": at, "page": f"/{at}", "t": 1000 * at} for at in range(first, first + count)]


def everything(source: FileInput) -> list[Row]:
    """As a source reads it: the splits in turn."""
    reader, read = InputReader(source, range(source.splits)), []
    while at := reader.next():
        read += source.batch(*at).rows
    return sorted(read)


def refusal(*paths: Any, **options: Any) -> str:
    """What is said when the input is made, or read."""
    with pytest.raises(InputError) as refused:
        everything(FileInput(paths, **{"key": "user", **options}))
    return str(refused.value)


# -- rows ------------------------------------------------------------------------------------------


@KINDS
def test_a_row_is_its_key_and_the_whole_record_as_sorted_json(tmp_path: Path, kind: Kind) -> None:
    path = kind.write(tmp_path / f"a{kind.suffix}", visits(2))
    assert [
        Row(0, 0, "u0", '{"n":0,"page":"/0","t":0,"user":"u0"}'),
        Row(0, 1, "u1", '{"n":1,"page":"/1","t":1000,"user":"u1"}'),
    ] == everything(FileInput(path, key="user"))


@KINDS
def test_value_and_event_time_can_be_columns(tmp_path: Path, kind: Kind) -> None:
    path = kind.write(tmp_path / f"a{kind.suffix}", visits(12))
    expected = [Row(0, at, f"u{at % 3}", str(at), 1000 * at) for at in range(12)]
    assert expected == everything(FileInput(path, key="user", value="n", event_time="t", batch_rows=5))


@KINDS
def test_a_folder_is_one_split_a_file_by_name_and_hidden_files_are_none(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "day").mkdir()
    kind.write(tmp_path / f"b{kind.suffix}", visits(3, first=10))
    kind.write(tmp_path / "day" / f"c{kind.suffix}", visits(1, first=20))
    kind.write(tmp_path / f"a{kind.suffix}", visits(2))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / f".b{kind.suffix}.crc").touch()
    expected = [(0, 0, "0"), (0, 1, "1"), (1, 0, "10"), (1, 1, "11"), (1, 2, "12"), (2, 0, "20")]
    for paths in (tmp_path, [tmp_path / "day", f"{tmp_path}/*{kind.suffix}", tmp_path / f"a{kind.suffix}"]):
        read = everything(FileInput(paths, key="user", value="n", batch_rows=2))
        assert expected == [(row.split, row.offset, row.value) for row in read]


def test_parquet_holds_more_than_json_does(tmp_path: Path) -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    nothing = {"k": "b", "at": noon, "raw": None, "list": None}
    path = parquet(tmp_path / "a.parquet", [{"k": "a", "at": noon, "raw": b"x", "list": [1, 2]}, nothing])
    milliseconds = int(noon.timestamp() * 1000)
    whole = '{"at":"2024-05-01T12:00:00+00:00","k":"a","list":[1,2],"raw":"x"}'
    assert Row(0, 0, "a", whole, milliseconds) == everything(FileInput(path, key="k", event_time="at"))[0]
    assert ["[1,2]", "null"] == [row.value for row in everything(FileInput(path, key="k", value="list"))]
    assert [noon.isoformat()] * 2 == [row.key for row in everything(FileInput(path, key="at"))]


@KINDS
def test_what_is_null_is_written_so(tmp_path: Path, kind: Kind) -> None:
    path = kind.write(tmp_path / f"a{kind.suffix}", [{"user": "a", "v": "x"}, {"user": "b", "v": None}])
    assert ["x", "null"] == [row.value for row in everything(FileInput(path, key="user", value="v"))]


# -- replay ----------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("batch_rows", [1, 3, 4, 100])
def test_a_jump_gives_the_rows_that_reading_on_gives(
    tmp_path: Path, kind: Kind, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines_input, "SCAN_BYTES", 64)  # so that there is more than one mark to jump to
    source = FileInput(
        kind.write(tmp_path / f"a{kind.suffix}", visits(25)), key="user", value="n", batch_rows=batch_rows
    )
    assert 25 == source.length(0)
    for offset in (24, 0, 7, 7, 12, 3, 23):
        expected = [str(at) for at in range(offset, min(25, offset + batch_rows))]
        assert (offset, expected) == (offset, [row.value for row in source.batch(0, offset).rows])


@KINDS
def test_it_goes_to_another_process_as_it_is(tmp_path: Path, kind: Kind) -> None:
    source = FileInput(kind.write(tmp_path / f"a{kind.suffix}", visits(9)), key="user", batch_rows=4)
    source.batch(0, 0)
    assert source.batch(0, 4).rows == pickle.loads(pickle.dumps(source)).batch(0, 4).rows


@pytest.mark.slow
@KINDS
def test_a_fork_does_not_share_the_file_position(tmp_path: Path, kind: Kind) -> None:
    """The operating system shares it: a read of one process would move the other's position."""
    source = FileInput(kind.write(tmp_path / f"a{kind.suffix}", visits(2000)), key="user", value="n", batch_rows=2)
    source.batch(0, 0)
    child = os.fork()
    if child == 0:
        os._exit(0 if [row.value for row in source.batch(0, 2).rows] == ["2", "3"] and source._process else 1)
    assert 0 == os.waitpid(child, 0)[1]
    assert [str(at) for at in range(2, 2000)] == [
        row.value for offset in range(2, 2000, 2) for row in source.batch(0, offset).rows
    ]


@KINDS
def test_files_that_come_later_get_new_splits(tmp_path: Path, kind: Kind) -> None:
    kind.write(tmp_path / f"b{kind.suffix}", visits(2))
    before = json.loads(json.dumps(FileInput(tmp_path, key="user").manifest))
    kind.write(tmp_path / f"a{kind.suffix}", visits(1))
    after = FileInput(tmp_path, key="user", earlier=before)
    assert [f"b{kind.suffix}", f"a{kind.suffix}"] == [Path(after.name_of(split)).name for split in range(after.splits)]


@KINDS
def test_a_checkpoint_that_has_read_more_than_there_is_is_refused(tmp_path: Path, kind: Kind) -> None:
    path = kind.write(tmp_path / f"a{kind.suffix}", visits(3))
    with pytest.raises(
        InputError, match=rf"a{kind.suffix} holds 3 rows, but 7 of it are in the checkpoint.*begin anew"
    ):
        InputReader(FileInput(path, key="user"), [0]).restore([(0, 7)])


def test_so_it_is_for_generated_rows() -> None:
    source = GeneratedInput(lambda split, at: Row(split, at, "k", "v"), rows_per_split=4)
    with pytest.raises(InputError, match="split 1 of the input holds 4 rows, but 5"):
        InputReader(source, [1]).restore([(1, 5)])


@KINDS
def test_a_file_that_changed_is_noticed_by_the_next_run_and_by_this_one(tmp_path: Path, kind: Kind) -> None:
    path = kind.write(tmp_path / f"a{kind.suffix}", visits(9))
    before = FileInput(path, key="user")
    content = path.read_bytes()
    wrongs = {"bytes are not the same": content.replace(b"u1", b"u7"), "bytes and has": content[:-30], "": None}
    for why, wrong in wrongs.items():
        path.unlink() if wrong is None else path.write_bytes(wrong)
        for read in (lambda: everything(before), lambda: FileInput(tmp_path, key="user", earlier=before.manifest)):
            with pytest.raises(InputError, match=rf"a{kind.suffix}.*{why}|holds no file"):
                read()


def test_a_parquet_file_that_has_grown_was_replaced(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", visits(3))
    before = FileInput(path, key="user").manifest
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(InputError, match="has changed"):
        FileInput(path, key="user", earlier=before)


# -- refusals --------------------------------------------------------------------------------------


def test_paths_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    lines(tmp_path / "visits.jsonl", visits(1))
    (tmp_path / "empty").mkdir()
    assert f"there is no '{tmp_path}/vists.jsonl' in {tmp_path}. Did you mean visits.jsonl?" == refusal(
        tmp_path / "vists.jsonl"
    )
    assert f"not even its folder {tmp_path}/no" in refusal(tmp_path / "no" / "a.jsonl")
    assert f"nothing matches '{tmp_path}/*.parquet'" in refusal(tmp_path / "*.parquet")
    assert f"the folder {tmp_path}/empty holds no file" in refusal(tmp_path / "empty")
    assert "no input was named" in refusal()


def test_files_of_no_kind_or_two_kinds_are_refused(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", visits(1))
    (tmp_path / "a.csv").write_text("a,b\n")
    assert f"{tmp_path}/a.csv: neither JSON lines nor Parquet by name (.jsonl" in refusal(tmp_path)
    (tmp_path / "a.csv").unlink()
    parquet(tmp_path / "b.parquet", visits(1))
    assert "both JSON lines" in refusal(tmp_path)
    assert "b.parquet" in refusal(tmp_path)


def test_files_without_rows_are_refused_only_if_there_are_no_others(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n \n")
    assert f"no row in {tmp_path}/a.jsonl" in refusal(tmp_path)
    lines(tmp_path / "b.jsonl", visits(1))
    assert [1] == [row.split for row in everything(FileInput(tmp_path, key="user"))]


@KINDS
@pytest.mark.parametrize("option", ["key", "value", "event_time"])
def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, kind: Kind, option: str) -> None:
    path = kind.write(tmp_path / f"a{kind.suffix}", visits(1))
    said = refusal(path, **{option: "usr"})
    assert "no column 'usr'. There are: user, n, page, t. Did you mean 'user'?" in said
    assert said.startswith(str(path))


@KINDS
@pytest.mark.parametrize("options", [{}, {"value": "n"}], ids=["whole", "column"])
def test_a_key_that_is_null_is_refused_with_its_place(tmp_path: Path, kind: Kind, options: dict[str, str]) -> None:
    path = kind.write(tmp_path / f"a{kind.suffix}", [*visits(2), {**visits(1)[0], "user": None}])
    said = refusal(path, **options)
    assert ("the key 'user' is null" in said, True) == (True, f"{path}:3" in said or f"{path}: row 2" in said)


def test_what_only_its_name_makes_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1, but no more")
    assert f"{tmp_path}/a.parquet: no Parquet (" in refusal(tmp_path)


def test_a_damaged_parquet_file_is_refused_when_the_damage_is_met(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", visits(50))
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    assert f"{path} can no longer be read at row 0" in refusal(path)


def test_two_parquet_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array([1])], names=["user", "user"]), path)
    assert "2 columns are called 'user'" in refusal(path)
