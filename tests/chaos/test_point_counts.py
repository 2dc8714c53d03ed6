"""Points are counted over all attempts of an actor, in a file that survives the deaths of its writers."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

from sinkproof.chaos.shared.point_counts import SLOTS, PointCounts, read_counts

FORKING = multiprocessing.get_context("fork")


def test_points_are_counted_and_listed_in_the_order_of_their_first_occurrence(tmp_path: Path) -> None:
    counts = PointCounts(tmp_path / "sink[0]")
    assert [1, 1, 2, 3] == [counts.add(point) for point in ("open.before", "write.after", "open.before", "open.before")]
    assert [("open.before", 3), ("write.after", 1)] == list(read_counts(tmp_path / "sink[0]").items())


def test_an_actor_without_attempts_has_no_counts(tmp_path: Path) -> None:
    assert {} == read_counts(tmp_path / "sink[0]")
    assert not (tmp_path / "sink[0]").exists()


def test_a_new_attempt_continues_the_counts_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "sink[0]"

    def attempt() -> None:
        counts = PointCounts(path)
        counts.add("open.before")
        counts.add("write.before")
        counts.add("write.before")
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(2):
        process = FORKING.Process(target=attempt)
        process.start()
        process.join()
        assert -signal.SIGKILL == process.exitcode
    assert {"open.before": 2, "write.before": 4} == read_counts(path)
    counts = PointCounts(path)
    assert (5, 1) == (counts.add("write.before"), counts.add("line(my_sink.py:42)"))


def test_points_beyond_the_last_slot_do_not_change_earlier_counts(tmp_path: Path) -> None:
    counts = PointCounts(tmp_path / "sink[0]")
    for number in range(SLOTS + 5):
        counts.add(f"line(my_sink.py:{number})")
    found = read_counts(tmp_path / "sink[0]")
    assert SLOTS == len(found)
    assert {1} == {found[f"line(my_sink.py:{number})"] for number in range(SLOTS - 1)}
    assert 2 == counts.add("line(my_sink.py:0)")
