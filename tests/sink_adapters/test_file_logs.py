"""Logs and masked files: torn lines, folding readers, the committer's own store, markers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sinkproof.sink_adapters.files import file_readers as readers
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.log_files import FileCommitter, FileLog
from sinkproof.sink_adapters.protocol import Context
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Owner
from sinkproof.sink_adapters.strategies.plain import PlainSink

from .by_hand import batch, masked_files, restored, started


@pytest.mark.row("S27")
def test_a_line_torn_by_a_kill_is_not_counted_and_harms_no_later_row(disk: Any) -> None:
    log = FileLog(Files(disk))
    sink = started(PlainSink(log))
    sink.write(batch(0, 1))
    disk.write(log._log.file, b'{"split":0,"offset":2,"key":"k2"')
    again = started(PlainSink(FileLog(Files(disk))), generation=2)
    again.write(batch(2, 3))
    again.snapshot(1)
    assert [0, 1, 2, 3] == [offset for _, offset in readers.read_log(disk)]


@pytest.mark.row("S19")
def test_a_keyed_log_is_folded_by_its_keys_and_shows_repeats_to_a_follower(disk: Any) -> None:
    for generation in (9, 10):
        sink = started(
            IdempotentSink(FileLog(Files(disk)), key=lambda row: f'"{row.offset // 2}'), generation=generation
        )
        sink.write(batch(0, 1, 2))
    assert [(0, 1), (0, 2)] == readers.read_table(disk)
    assert [0, 1, 2, 0, 1, 2] == [offset for _, offset in readers.read_log(disk)]


@pytest.mark.row("S20")
def test_the_committer_knows_the_records_of_killed_attempts_and_ignores_a_torn_one(disk: Any) -> None:
    parts = [CheckpointPart.of(Owner("sink", 0, 1), checkpoint_id) for checkpoint_id in (1, 12, 13)]
    first = FileCommitter(Files(disk))
    first.attach(Context(generation=1))
    first.record(parts[0])
    disk.write(first._records.file, b"sink-0-12")  # of sink-0-12;
    second = FileCommitter(Files(disk))
    second.attach(Context(generation=2))
    assert [True, False, False] == [second.is_committed(part) for part in parts]
    second.record(parts[2])
    assert [True, False, True] == [second.is_committed(part) for part in parts]


@pytest.mark.row("S25")
def test_masked_files_are_in_place_and_a_marker_reveals_them(tmp_path: Path) -> None:
    sink = started(masked_files(RealDisk(tmp_path)), generation=7)
    for checkpoint_id in (1, 2):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    assert [] == readers.read_masked(tmp_path)
    sink.notify_complete(1)
    assert [(0, 1)] == readers.read_masked(tmp_path)
    names = ["part-00000001-0-7-0001.jsonl", "part-00000002-0-7-0001.jsonl", "revealed-7-00000001"]
    assert names == sorted(os.listdir(tmp_path / "masked" / "sink"))
    assert ["masked/sink/part-00000002-0-7-0001.jsonl"] == readers.masked_residue(RealDisk(tmp_path))


@pytest.mark.row("S25")
def test_hidden_files_of_killed_attempts_are_collected_and_revealed_ones_never(disk: Any) -> None:
    old = [started(masked_files(disk), subtask=subtask, parallelism=3) for subtask in range(3)]
    for subtask, sink in enumerate(old):
        sink.write(batch(subtask))
    states = [sink.snapshot(1) for sink in old]
    for subtask, sink in enumerate(old):
        sink.write(batch(10 + subtask))
    again = restored(masked_files(disk), 2, *states)
    assert [] == readers.masked_residue(disk)
    old[0].write(batch(20))  # by zombies: into an unlinked file, and under an existing marker
    old[0].snapshot(2)
    old[0].notify_complete(1)
    again.write(batch(10))
    again.snapshot(2)
    again.notify_complete(2)
    assert [0, 1, 2, 10] == [offset for _, offset in readers.read_masked(disk)]
