"""The disks below `Files`, and what remains after a power loss under a sink."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sinkproof.sink_adapters.files import file_readers as readers
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.protocol import nothing

from .by_hand import Crashed, batch, crashing_at, masked_files, started, tree, two_phase_files


class ThreeCheckpoints:
    """Writes three checkpoints of two rows each, in as many attempts as needed."""

    def __init__(self, make: Any) -> None:
        self.make, self.disk = make, MemoryDisk()
        self.generation = 0
        self.complete: list[tuple[int, bytes]] = []

    def attempt(self, reach: Any) -> None:
        self.generation += 1
        done, state = self.complete[-1] if self.complete else (0, b"")
        context = {"checkpoint_id_restored": done, "restored": [(0, state)]} if done else {}
        sink = started(self.make(self.disk, roll_bytes=1), generation=self.generation, reach=reach, **context)
        for checkpoint_id in range(done + 1, 4):
            sink.write(batch(checkpoint_id * 2))
            sink.write(batch(checkpoint_id * 2 + 1))
            self.complete.append((checkpoint_id, sink.snapshot(checkpoint_id)))
            sink.notify_complete(checkpoint_id)

    def attempt_until_power_is_lost(self, reach: Any) -> None:
        with suppress(Crashed):
            self.attempt(reach)
        self.disk.lose_power()


@pytest.mark.slow
@pytest.mark.row("S22")
@pytest.mark.parametrize("make", [two_phase_files, masked_files])
def test_no_acknowledged_row_is_lost_at_any_power_loss(make: Any) -> None:
    """At every point of the first attempt, at every third point of the next, and at the end."""
    read = readers.read_committed if make is two_phase_files else readers.read_masked
    points: list[str] = []
    ThreeCheckpoints(make).attempt(points.append)
    assert len(points) > 40
    for first in range(len(points) + 1):
        for second in range(0, len(points), 3):
            story = ThreeCheckpoints(make)
            story.attempt_until_power_is_lost(crashing_at(first))
            story.attempt_until_power_is_lost(crashing_at(second))
            story.attempt_until_power_is_lost(nothing)
            assert [2, 3, 4, 5, 6, 7] == [offset for _, offset in read(story.disk)], (first, second)


def test_a_disk_in_memory_loses_unsynced_bytes_and_names() -> None:
    disk = MemoryDisk()
    disk.make_directory("a/b")
    named, unnamed = disk.create("a/named"), disk.create("a/b/unnamed")
    disk.write(named, b"synced")
    disk.fsync(named)
    disk.write(named, b" and not")
    disk.write(unnamed, b"synced")
    disk.fsync(unnamed)
    disk.fsync_directory("a")
    disk.rename("a/named", "a/b/moved")
    disk.fsync_directory("a/b")
    disk.unlink("a/b/unnamed")
    disk.lose_power()
    assert ["a/b/moved", "a/b/unnamed", "a/named"] == sorted(tree(disk, "a"))
    assert b"synced" == disk.read("a/b/moved") == disk.read("a/named")


def test_a_copy_is_restored_exactly_and_as_new_files(disk: Any) -> None:
    disk.make_directory("folder/empty")
    held = disk.create("folder/file")
    disk.write(held, b"1")
    frozen = disk.freeze()
    disk.make_directory("more")
    disk.rename("folder/file", "more/file")
    disk.remove_directory("folder/empty")
    disk.thaw(frozen)
    disk.write(held, b"2")  # by a killed attempt, into its open file
    assert (["folder/file"], [], b"1") == (tree(disk, "folder"), disk.list("more"), disk.read("folder/file"))
    assert disk.is_folder("folder/empty")


def test_a_name_that_was_not_synced_in_the_copy_is_not_synced_after_the_restore() -> None:
    disk = MemoryDisk()
    disk.make_directory("folder")
    disk.fsync_directory("")
    disk.fsync(disk.create("folder/file"))
    frozen = disk.freeze()
    disk.fsync_directory("folder")
    disk.thaw(frozen)
    assert ["folder/file"] == tree(disk, "folder")
    disk.lose_power()
    assert [] == tree(disk, "folder")


def test_copies_of_equal_disks_are_equal_whatever_their_history(disk: Any) -> None:
    """Names created in another order, and equal bytes in another object."""
    copies = []
    for names in (["one", "two"], ["two", "".join(["o", "ne"])]):
        disk.make_directory("folder")
        for name in names:
            file = disk.create(f"folder/{name}")
            disk.write(file, "".join(["by", name]).encode())
            disk.fsync(file)
        disk.fsync_directory("folder")
        copies.append((disk.freeze(), disk.while_powered()))
        for name in names:
            disk.unlink(f"folder/{name}")
        disk.fsync_directory("folder")
    assert copies[0] == copies[1]


def test_what_was_synced_changes_freeze_but_not_while_powered() -> None:
    disk = MemoryDisk()
    file = disk.create("file")
    disk.write(file, b"1")
    before = disk.freeze(), disk.while_powered()
    disk.fsync(file)
    disk.fsync_directory("")
    synced = disk.freeze(), disk.while_powered()
    assert before[0] != synced[0]
    assert before[1] == synced[1]
    disk.write(file, b"2")
    assert disk.while_powered() != synced[1]
    disk.thaw(synced[0])
    assert b"1" == disk.read("file")
    disk.lose_power()
    assert b"1" == disk.read("file"), "what was synced when it was copied is safe"


@pytest.mark.parametrize(
    "act",
    [
        lambda disk: disk.create("nowhere/file"),
        lambda disk: disk.rename("nothing", "something"),
        lambda disk: disk.unlink("nothing"),
        lambda disk: disk.read("nothing"),
        lambda disk: disk.remove_directory("nothing"),
        lambda disk: disk.fsync_directory("nothing"),
    ],
)
def test_both_disks_raise_for_a_missing_file(disk: Any, act: Any) -> None:
    with pytest.raises(FileNotFoundError):
        act(disk)


def test_both_disks_refuse_to_create_a_file_twice_and_to_remove_a_folder_with_files(disk: Any) -> None:
    disk.make_directory("folder")
    disk.create("folder/file")
    with pytest.raises(FileExistsError):
        disk.create("folder/file")
    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory("folder")


def test_two_subtasks_may_make_the_same_folder_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has made the parent only when the other has made both."""
    make = os.mkdir

    def both(path: str, *arguments: int) -> None:
        make(path, *arguments)
        if path.endswith("/committed"):
            make(f"{path}/sink")

    monkeypatch.setattr(os, "mkdir", both)
    RealDisk(tmp_path).make_directory("committed/sink")
    assert (tmp_path / "committed" / "sink").is_dir()


# -- three kinds of power loss ---------------------------------------------------------------------


def half_synced() -> MemoryDisk:
    """a: synced, name and bytes; b: 4 of 8 bytes synced, its name not; c: synced bytes, renamed since."""
    disk = MemoryDisk()
    for name, data in (("a", b"aaaa"), ("c", b"cccc")):
        file = disk.create(name)
        disk.write(file, data)
        disk.fsync(file)
    disk.fsync_directory("")
    file = disk.create("b")
    disk.write(file, b"bbbb")
    disk.fsync(file)
    disk.write(file, b"BBBB")
    disk.rename("c", "d")
    return disk


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("lose_power", {"a": b"aaaa", "c": b"cccc"}),
        ("lose_bytes", {"a": b"aaaa", "b": b"bbbbBB", "d": b"cccc"}),
        ("lose_names", {"a": b"aaaa", "c": b"cccc"}),
    ],
)
def test_names_and_bytes_are_lost_together_or_apart(way: str, expected: dict[str, bytes]) -> None:
    disk = half_synced()
    getattr(disk, way)()
    assert expected == {name: disk.read(name) for name in disk.list("")}
    disk.lose_power()
    assert expected == {name: disk.read(name) for name in disk.list("")}, "what is left is safe"


def test_bytes_remain_where_only_names_are_lost() -> None:
    disk = half_synced()
    disk.fsync_directory("")
    disk.lose_names()
    assert b"bbbbBBBB" == disk.read("b")
