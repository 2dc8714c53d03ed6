"""Executed lines and file effects are points, which are reached right before they happen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.lines import LineTracer, Unanswered, executable_lines, file_points, known_lines

SOURCE = '''"""A module."""
import functools

CONSTANT = 1


def cached(function):
    return functools.cache(function)


class Thing:
    """A class."""

    limit = 3

    @cached
    def work(self, times):
        """A docstring."""
        total = 0
        for number in (each for each in range(times)):
            if number > self.limit:
                continue
            total += number
        return [
            total + extra
            for extra in (0, 1)
        ]

    def short(self): return 1

    def never(self):
        raise NotImplementedError
'''


def load(folder: Path) -> Any:
    file = folder / "thing.py"
    file.write_text(SOURCE)
    names: dict[str, Any] = {}
    exec(compile(SOURCE, str(file), "exec"), names)
    return names["Thing"]()


def names(folder: Path) -> dict[str, str]:
    return {str(folder / "thing.py"): "thing.py"}


def test_every_executed_line_is_a_point_before_its_execution(tmp_path: Path) -> None:
    thing = load(tmp_path)
    tracer = LineTracer(names(tmp_path))
    points: list[str] = []
    with tracer(points.append):
        assert [6, 7] == thing.work(6)
        thing.short()
        json.dumps({})
    reached = {int(point.rpartition(":")[2].rstrip(")")) for point in points}
    work = set(range(19, 27))
    assert work | {29} == reached
    assert {f"line(thing.py:{number})" for number in work | {29}} == tracer.known()
    assert tracer.known() == known_lines(tracer.files, set(points))
    assert work | {8, 29, 32} == executable_lines(tmp_path / "thing.py")


def test_a_line_is_not_executed_when_its_point_raises(tmp_path: Path) -> None:
    thing = load(tmp_path)

    def reach(point: str) -> None:
        raise OSError(point)

    with (
        LineTracer(names(tmp_path))(reach),
        pytest.raises(OSError, match=r"line\(thing\.py:32\)"),
    ):
        thing.never()


def test_file_effects_under_the_folder_are_points(tmp_path: Path) -> None:
    inside, beside = tmp_path / "sink", tmp_path / "sink2"
    inside.mkdir()
    beside.mkdir()
    points: list[str] = []
    with file_points(inside, points.append):
        (inside / "a").write_text("a")
        (inside / "a").read_text()
        (inside / "a").rename(inside / "b")
        os.close(os.open(inside / "b", os.O_WRONLY))
        os.truncate(inside / "b", 0)
        (inside / "b").unlink()
        (inside / "folder").mkdir()
        (inside / "folder" / "c").touch()
        shutil.rmtree(inside / "folder")
        (beside / "a").write_text("a")
        (beside / "a").unlink()
    assert [
        *("file.create", "file.rename", "file.write", "file.write", "file.unlink"),
        *("file.make_directory", "file.create", "file.unlink", "file.remove_directory"),
    ] == points
    (inside / "z").write_text("not observed")
    assert 9 == len(points)


def test_reads_under_the_folder_are_points_if_they_are_asked_for(tmp_path: Path) -> None:
    inside, beside = tmp_path / "sink", tmp_path / "sink2"
    inside.mkdir()
    beside.mkdir()
    (inside / "a").write_text("a")
    (beside / "a").write_text("a")
    points: list[str] = []
    for reads in (True, False):
        with file_points(inside, points.append, reads=reads):
            assert "a" == (inside / "a").read_text()
            assert ["a"] == os.listdir(inside)
            assert ["a"] == os.listdir(beside)
            assert "a" == (beside / "a").read_text()
            assert ["a"] == [path.name for path in inside.glob("*")]
        assert ["file.read", "file.read"] == points


def test_a_read_that_fails_raises_to_its_caller(tmp_path: Path) -> None:
    def reach(point: str) -> None:
        raise OSError(point)

    with file_points(tmp_path, reach, reads=True), pytest.raises(OSError, match=r"file\.read"):
        os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("call", "done"),
    [
        (lambda folder: (folder / "new").write_text("text"), lambda folder: (folder / "new").read_text() == ""),
        (lambda folder: os.link(folder / "old", folder / "new"), lambda folder: (folder / "new").exists()),
        (lambda folder: (folder / "new").symlink_to("old"), lambda folder: (folder / "new").is_symlink()),
        (lambda folder: (folder / "old").replace(folder / "new"), lambda folder: (folder / "new").exists()),
        (lambda folder: (folder / "old").unlink(), lambda folder: not (folder / "old").exists()),
        (lambda folder: (folder / "new").mkdir(), lambda folder: (folder / "new").is_dir()),
        (lambda folder: (folder / "empty").rmdir(), lambda folder: not (folder / "empty").exists()),
    ],
)
def test_a_file_effect_with_a_lost_reply_has_happened(
    call: Callable[[Path], object], done: Callable[[Path], bool], tmp_path: Path
) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "empty").mkdir()

    def reach(point: str) -> None:
        raise Unanswered(point)

    with file_points(tmp_path, reach), pytest.raises(Unanswered):
        call(tmp_path)
    assert done(tmp_path)


def test_a_file_effect_that_fails_by_itself_raises_its_own_error(tmp_path: Path) -> None:
    def reach(point: str) -> None:
        raise Unanswered(point)

    with file_points(tmp_path, reach), pytest.raises(FileNotFoundError):
        (tmp_path / "missing").unlink()


@pytest.mark.parametrize(
    ("make", "permissions"),
    [
        (lambda folder: (folder / "made").write_text("contents"), 0o666),
        (lambda folder: os.open(folder / "made", os.O_CREAT | os.O_WRONLY, 0o640), 0o640),
        (lambda folder: (folder / "made").touch(0o644), 0o644),
    ],
)
def test_a_file_that_is_made_without_an_answer_has_the_permissions_that_were_asked_for(
    make: Callable[[Path], Any], permissions: int, tmp_path: Path
) -> None:
    def reach(point: str) -> None:
        raise Unanswered(point)

    before = os.umask(0)
    try:
        with file_points(tmp_path, reach), pytest.raises(Unanswered):
            make(tmp_path)
    finally:
        os.umask(before)
    assert permissions == (tmp_path / "made").stat().st_mode & 0o777
    assert os.open.__name__ == "open"
