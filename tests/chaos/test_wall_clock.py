"""The wall clock of a process moves as it is told to; the monotonic clock does not; files bear the moved time."""

from __future__ import annotations

import importlib
import os
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from sinkproof.chaos.moved_clock import MovedClock
from sinkproof.chaos.replaced_functions import ClocksAhead
from sinkproof.chaos.sqlite_points import sqlite_points
from sinkproof.chaos.wall_clock import WallClock, shift_file_times

NEW_YEARS_EVE = datetime(2023, 12, 31, 23, 30, tzinfo=UTC).timestamp()


def in_a_process(read: Callable[[], Any]) -> Any:
    """In one of its own: a moved clock is never put right."""
    with get_context("fork").Pool(1) as pool:
        return pool.apply(read)


def dates_and_monotonic() -> tuple[str, str, float]:
    began = time.monotonic()
    clock = MovedClock(WallClock(start=NEW_YEARS_EVE), 1.0)
    before = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    clock.show(1.0 + 45 * 60)
    return before, time.strftime("%Y-%m-%d %H:%M", time.gmtime()), time.monotonic() - began


def test_the_wall_clock_moves_and_the_monotonic_clock_does_not() -> None:
    before, after, passed = in_a_process(dates_and_monotonic)
    assert (before, after) == ("2023-12-31 23:30:01", "2024-01-01 00:15")
    assert 0 <= passed < 45 * 60


def texts_of_time() -> list[str]:
    clock = MovedClock(WallClock(start=NEW_YEARS_EVE, zone="UTC0"), 0.0)
    shown = [time.ctime(), time.asctime(), time.ctime(0), time.asctime(time.gmtime(0))]
    clock.show(3600.0)
    return [*shown, time.ctime()]


def test_texts_are_of_the_moved_time() -> None:
    first, then = "Sun Dec 31 23:30:00 2023", "Thu Jan  1 00:00:00 1970"
    assert in_a_process(texts_of_time) == [first, first, then, then, "Mon Jan  1 00:30:00 2024"]


def since(began: float, *, clock: Callable[[], float] = time.monotonic) -> float:
    return clock() - began


class Waits:
    def since_then(self, began: float, clock: Callable[[], float]) -> float:
        return clock() - began

    since_then.__defaults__ = (time.monotonic,)

    @staticmethod
    def since(began: float, *, clock: Callable[[], float] = time.monotonic) -> float:
        return clock() - began


def waits_by_default_values() -> tuple[float, ...]:
    began = time.monotonic()
    ahead = ClocksAhead(["monotonic"])
    ahead.seconds = 3600.0
    return since(began), Waits.since(began), Waits().since_then(began)  # type: ignore[call-arg]


def steady_clocks_by_number() -> list[float]:
    steady = time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME
    began = [*map(time.clock_gettime, (*steady, time.CLOCK_REALTIME)), time.clock_gettime_ns(steady[0]) / 1e9]
    ClocksAhead(["monotonic"]).seconds = 3600.0
    then = [*map(time.clock_gettime, (*steady, time.CLOCK_REALTIME)), time.clock_gettime_ns(steady[0]) / 1e9]
    return [after - before for before, after in zip(began, then, strict=True)]


def test_steady_clocks_are_ahead_by_their_numbers_too() -> None:
    monotonic, of_boot, real, in_ns = in_a_process(steady_clocks_by_number)
    assert all(3600.0 <= seconds < 7200.0 for seconds in (monotonic, of_boot, in_ns))
    assert 0 <= real < 3600.0


def test_clocks_that_are_default_values_are_ahead_too() -> None:
    assert all(3600.0 <= seconds < 7200.0 for seconds in in_a_process(waits_by_default_values))


def times_of_a_new_file() -> list[Any]:
    with NamedTemporaryFile() as file, NamedTemporaryFile() as old:
        MovedClock(WallClock(start=NEW_YEARS_EVE), 0.0, for_life=True)
        os.utime(old.name, (7.0, 7.0))
        file.write(b"new")
        file.flush()
        seen = [os.stat(file.name), os.lstat(file.name), os.fstat(file.fileno()), Path(file.name).stat()]
        times = (
            [each.st_mtime for each in seen]
            + [each.st_mtime_ns / 1e9 for each in seen]
            + [seen[0][8], seen[0].st_ctime]
        )
        of_imports = importlib._bootstrap_external._path_stat(file.name).st_mtime  # type: ignore[attr-defined]
        assert os.stat in os.supports_fd & os.supports_dir_fd & os.supports_follow_symlinks
        assert of_imports > NEW_YEARS_EVE + 366 * 86400
        return [times, [each.st_size for each in seen], os.stat(old.name).st_mtime, os.path.getmtime(file.name)]


def test_a_new_file_is_as_old_as_the_moved_clock_says() -> None:
    times, sizes, old, modified = in_a_process(times_of_a_new_file)
    assert all(NEW_YEARS_EVE - 60 < each < NEW_YEARS_EVE + 60 for each in (*times, modified))
    assert ([3] * 4, 7.0) == (sizes, old)


def days_of_sqlite() -> list[tuple[Any, ...]]:
    clock = MovedClock(WallClock(start=NEW_YEARS_EVE), 0.0)
    with sqlite_points(Path("/no/folder"), lambda point: None):
        connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (at DEFAULT CURRENT_TIMESTAMP, day AS (date(at)))")
    connection.execute("CREATE INDEX by_day ON rows (date(at))")
    connection.execute("INSERT INTO rows DEFAULT VALUES")
    asked = "SELECT date('now'), datetime('NOW', '-1 day'), strftime('%Y'), date('2020-02-28', '+1 day'), unixepoch()"
    (row,) = connection.execute(asked).fetchall()
    clock.show(3600.0)
    return [row, *connection.execute("SELECT *, CURRENT_DATE FROM rows").fetchall()]


def test_sqlite_goes_by_the_clock_that_python_shows() -> None:
    asked, kept = in_a_process(days_of_sqlite)
    assert asked == ("2023-12-31", "2023-12-30 23:30:00", "2023", "2020-02-29", int(NEW_YEARS_EVE))
    assert kept == ("2023-12-31 23:30:00", "2023-12-31", "2024-01-01")


def local_hours() -> list[str]:
    clock = MovedClock(
        WallClock(start=datetime(2023, 10, 29, 0, 30, tzinfo=UTC).timestamp(), zone="CET-1CEST,M3.5.0,M10.5.0/3"), 0.0
    )
    shown = [f"{datetime.now():%H:%M}"]
    clock.show(45 * 60)
    return [*shown, f"{datetime.now():%H:%M}"]


def test_local_time_goes_back_when_daylight_saving_time_ends() -> None:
    assert in_a_process(local_hours) == ["02:30", "02:15"]


def three_readings() -> list[bool]:
    clock = MovedClock(WallClock(start=NEW_YEARS_EVE), 10.0)
    while (first := time.time()) <= NEW_YEARS_EVE + 10:  # until it has ticked on by itself
        pass
    clock.show(10.0)
    second = time.time()
    clock.show(5.0)
    return [first <= second, time.time() < first]


def test_the_wall_clock_goes_back_only_if_the_engine_s_clock_does() -> None:
    assert in_a_process(three_readings) == [True, True]


@pytest.mark.parametrize("start", [0.0, NEW_YEARS_EVE])
def test_files_are_given_the_moved_time_once(start: float, tmp_path: Path) -> None:
    clock, engine = WallClock(start=start), NEW_YEARS_EVE - start
    (tmp_path / "part").write_text("row")
    clock.date_files(tmp_path, engine + 60)
    assert (tmp_path / "part").stat().st_mtime == pytest.approx(NEW_YEARS_EVE + 60, abs=30)
    moved = (tmp_path / "part").stat().st_mtime
    clock.date_files(tmp_path, engine + 3600)
    assert (tmp_path / "part").stat().st_mtime == moved


def test_older_files_keep_their_times(tmp_path: Path) -> None:
    for name, seconds in (("old", 1000), ("new", 3000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    shift_file_times(tmp_path, -500, newer_than=2000)
    assert [(tmp_path / name).stat().st_mtime for name in ("old", "new")] == [1000, 2500]
