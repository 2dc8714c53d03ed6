"""Changes of SQLite files are points; an error there is one of the library."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sinkproof.chaos.sqlite_points import Waits, sqlite_points


class Points:
    def __init__(self) -> None:
        self.reached: list[str] = []
        self.failing = ""

    def reach(self, point: str) -> None:
        self.reached.append(point)
        if point == self.failing:
            raise OSError("injected")


@pytest.fixture
def points() -> Points:
    return Points()


def fill(connection: sqlite3.Connection) -> None:
    with connection:
        connection.execute("INSERT INTO rows VALUES (1)")


def test_each_commit_is_a_point_and_each_statement_that_is_prepared(points: Points, tmp_path: Path) -> None:
    with sqlite_points(tmp_path, points.reach), closing(sqlite3.connect(tmp_path / "rows.db")) as connection:
        connection.execute("CREATE TABLE rows (number INTEGER)")
        fill(connection)
        fill(connection)
        connection.execute("DELETE FROM rows WHERE number = 2")
        connection.commit()
        connection.execute("SELECT number FROM rows").fetchall()
    assert ["file.change_rows", "file.commit", "file.commit", "file.change_rows", "file.commit"] == points.reached


@pytest.mark.parametrize("failing", ["file.change_rows", "file.commit"])
def test_what_fails_has_changed_nothing(points: Points, tmp_path: Path, failing: str) -> None:
    with sqlite_points(tmp_path, points.reach), closing(sqlite3.connect(tmp_path / "rows.db")) as connection:
        connection.execute("CREATE TABLE rows (number INTEGER)")
        points.failing = failing
        with pytest.raises(sqlite3.OperationalError):
            fill(connection)
        assert not connection.in_transaction
        assert [] == connection.execute("SELECT number FROM rows").fetchall()


def test_files_elsewhere_and_connections_outside_of_the_block_have_none(points: Points, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with sqlite_points(tmp_path / "folder", points.reach):
        for name in (str(tmp_path / "rows.db"), ":memory:"):
            with closing(sqlite3.connect(name)) as connection:
                connection.execute("CREATE TABLE rows (number INTEGER)")
                fill(connection)
    with closing(sqlite3.connect(tmp_path / "folder" / "rows.db")) as connection:
        connection.execute("CREATE TABLE rows (number INTEGER)")
        fill(connection)
    assert [] == points.reached


def test_a_module_that_has_imported_the_function_is_watched_too(
    points: Points, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "connect", sqlite3.connect)
    watched = sqlite_points(tmp_path, points.reach, files=[__file__])
    with watched, closing(globals()["connect"](tmp_path / "rows.db")) as connection:
        connection.execute("CREATE TABLE rows (number INTEGER)")
        fill(connection)
    assert "file.commit" in points.reached
    assert globals()["connect"] is sqlite3.connect


@pytest.mark.parametrize("reads", [True, False])
def test_queries_are_points_if_they_are_asked_for(points: Points, tmp_path: Path, reads: bool) -> None:
    points.failing = "file.read"
    with (
        sqlite_points(tmp_path, points.reach, reads=reads),
        closing(sqlite3.connect(tmp_path / "rows.db")) as connection,
    ):
        connection.execute("CREATE TABLE rows (number INTEGER)")
        if reads:
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("SELECT number FROM rows")
        else:
            assert [] == connection.execute("SELECT number FROM rows").fetchall()
    assert reads == ("file.read" in points.reached)


@pytest.mark.parametrize(
    ("given", "most", "waits"),
    [(30.0, 2.0, 2000), (5.0, 2.0, 5000), (30.0, None, 30_000)],
    ids=["cut", "by itself", "all"],
)
def test_connections_wait_for_locks_no_longer_than_is_set(
    points: Points, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float, most: float | None, waits: int
) -> None:
    monkeypatch.setattr(Waits, "seconds_most", most)
    with (
        sqlite_points(tmp_path, points.reach),
        closing(sqlite3.connect(tmp_path / "rows.db", timeout=given)) as connection,
    ):
        (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
        for setting in ("20000", "20000.5", "'20000 ms'"):
            connection.execute(f"PRAGMA busy_timeout = {setting}")
        (after,) = connection.execute("PRAGMA busy_timeout").fetchone()
    assert (waits, 20_000 if most is None else waits) == (before, after)
