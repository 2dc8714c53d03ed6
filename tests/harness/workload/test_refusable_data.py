"""A sink may refuse a key that is too long for its target, or a value that its format cannot hold. One that cuts a key
takes two for one; one that cuts a value changes it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import (
    EDGE_CASE_VALUES_JOB,
    LARGE_OFFSETS_JOB,
    LONG_KEYS_JOB,
    LONG_VALUES_JOB,
    NULL_CHARACTERS_JOB,
)
from sinkproof.workload.jobs import input_of

PADDED: Final = """\
import json
from sinkproof import Claim


class Rows:
    def __init__(self, folder):
        self.folder = folder

    def is_committed(self, part):
        return (self.folder / f"{{part}}.json").exists()

    def publish(self, part, rows):
        new = self.folder / f"{{part}}.new"
        new.write_text(json.dumps([[row.split, row.offset, row.key, self.held(row.value)] for row in rows]))
        new.rename(self.folder / f"{{part}}.json")

    def record(self, part):
        pass

    def held(self, value):
        {held}


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Rows(scratch.path)

    def committed(self, scratch):
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())
"""
SINK: Final = """\
import json
from hashlib import sha256
from sinkproof import Claim


class Rows:
    def __init__(self, folder):
        self.folder = folder

    def name_of(self, key):
        {name}

    def upsert(self, rows):
        for _, row in rows:
            file = self.folder / f"{{self.name_of(row.key)}}.json"
            new = file.with_suffix(".new")
            new.write_text(json.dumps([row.split, row.offset]))
            new.replace(file)


class Of:
    claims = Claim.NO_LOSS
    rows = "upsert"

    def sink(self, scratch):
        return Rows(scratch.path)

    def committed(self, scratch):
        for file in scratch.path.glob("*.json"):
            yield json.loads(file.read_text())
"""


def test_its_keys_differ_behind_what_most_columns_hold() -> None:
    source = input_of(LONG_KEYS_JOB)
    keys = {row.key for split in (0, 1) for offset in (0, 3, 6) for row in source.batch(split, offset)}
    assert len(keys) > 4
    assert 1 == len({key[:1024] for key in keys})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "finishes", "loses"),
    [
        ("return key[:200]", True, True),
        ("return key", False, False),  # a name of a file has 255 bytes at most
        ("return sha256(key.encode()).hexdigest()", True, False),
    ],
)
def test_a_key_is_refused_by_an_error_or_kept_apart(name: str, finishes: bool, loses: bool, tmp_path: Path) -> None:
    file, folder = tmp_path / "sink.py", tmp_path / "scratch"
    file.write_text(SINK.format(name=name))
    folder.mkdir()
    with process_runner(load(f"{file}:Of"), Scratch(name="data", path=folder, shell="process")) as runner:
        result = runner.run(Schedule(job=LONG_KEYS_JOB))
    assert finishes is result.finished
    assert loses is ("O1" in {each.oracle for each in result.anomalies})


def test_its_values_are_longer_than_columns_for_texts() -> None:
    source = input_of(LONG_VALUES_JOB)
    values = [row.value for split in (0, 1) for offset in (0, 4, 8) for row in source.batch(split, offset)]
    lengths = [len(value.encode()) for value in values]
    assert min(lengths) < 255
    assert any(1024 < length < 1 << 16 for length in lengths)
    assert any(length > 2 << 16 and not value.isascii() for length, value in zip(lengths, values, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "finishes", "changes"),
    [
        ("return value.encode()[:65535].decode(errors='ignore')", True, True),  # as a lenient server shortens a TEXT
        ("assert len(value.encode()) < 65536; return value", False, False),
        ("return value", True, False),
    ],
)
def test_a_long_value_is_refused_by_an_error_or_kept(held: str, finishes: bool, changes: bool, tmp_path: Path) -> None:
    file, folder = tmp_path / "sink.py", tmp_path / "scratch"
    file.write_text(PADDED.format(held=held))
    folder.mkdir()
    with process_runner(load(f"{file}:Of"), Scratch(name="data", path=folder, shell="process")) as runner:
        assert () == runner.run(Schedule()).anomalies
        assert () == runner.run(Schedule(job=EDGE_CASE_VALUES_JOB)).anomalies
        result = runner.run(Schedule(job=LONG_VALUES_JOB))
    assert finishes is result.finished
    assert changes is bool(result.anomalies)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "finishes", "changes"),
    [
        ('return value.rstrip("\\0")', True, True),  # as a column of fixed width does that is padded with them
        ('return value.partition("\\0")[0]', True, True),
        ('assert "\\0" not in value; return value', False, False),
        ("return value", True, False),
    ],
)
def test_a_value_that_a_format_cannot_hold_is_refused_by_an_error_or_kept(
    held: str, finishes: bool, changes: bool, tmp_path: Path
) -> None:
    file, folder = tmp_path / "sink.py", tmp_path / "scratch"
    file.write_text(PADDED.format(held=held))
    folder.mkdir()
    with process_runner(load(f"{file}:Of"), Scratch(name="data", path=folder, shell="process")) as runner:
        assert () == runner.run(Schedule()).anomalies
        result = runner.run(Schedule(job=NULL_CHARACTERS_JOB))
    assert finishes is result.finished
    assert ({"O12"} if changes else set()) == {each.oracle for each in result.anomalies}


def test_offsets_need_more_bits_than_a_number_of_32_has() -> None:
    source = input_of(LARGE_OFFSETS_JOB)
    offsets = [row.offset for split in (0, 1) for row in source.batch(split, source.first(split))]
    assert [True, True, False, False] == [2**31 <= offset < 2**32 for offset in offsets]
    assert all(offset >= 2**32 for offset in offsets[2:])
    assert ["1.4073748835533e+14"] * 2 == [f"{offset:.14g}" for offset in offsets[2:]], "one text for both"
    assert all(offset == int(float(offset)) and offset < 2**48 for offset in offsets), "JavaScript keeps them"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "finishes", "oracles"),
    [
        ("row.offset % 2**32 - (row.offset % 2**32 >= 2**31) * 2**32", True, {"O1", "O2"}),  # as a cast wraps it
        ("struct.unpack('<i', struct.pack('<i', row.offset))[0]", False, set()),
        ("float(f'{row.offset:.14g}')", True, {"O1", "O2", "O3", "O12"}),  # as scripts of Lua write numbers
        ("float(row.offset)", True, set()),
        ("row.offset", True, set()),
    ],
)
def test_an_offset_that_a_format_cannot_hold_is_refused_by_an_error_or_kept(
    held: str, finishes: bool, oracles: set[str], tmp_path: Path
) -> None:
    file, folder = tmp_path / "sink.py", tmp_path / "scratch"
    file.write_text(f"import struct\n{PADDED.format(held='return value').replace('row.offset', held)}")
    folder.mkdir()
    with process_runner(load(f"{file}:Of"), Scratch(name="data", path=folder, shell="process")) as runner:
        assert () == runner.run(Schedule()).anomalies
        result = runner.run(Schedule(job=LARGE_OFFSETS_JOB))
    assert (finishes, oracles) == (result.finished, {each.oracle for each in result.anomalies})
