"""Transactional files: layout, committed view, fencing of zombies, Parquet."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sinkproof.sink_adapters.files import file_readers as readers
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.files.parquet_format import PARQUET
from sinkproof.sink_adapters.files.row_formats import JSON_LINES
from sinkproof.sink_adapters.protocol import Batch, Fenced, Row, TransactionLost

from .by_hand import Crashed, batch, crashing_at, masked_files, restored, started, tree, two_phase_files


def committed(disk: Any, **options: Any) -> list[int]:
    return [offset for _, offset in readers.read_committed(disk, **options)]


@pytest.mark.row("S22")
def test_a_file_is_in_progress_then_pending_then_committed(disk: Any) -> None:
    sink = started(two_phase_files(disk), generation=7)
    sink.write(batch(0, 1))
    assert ["staging/sink-0/g7/00000001-0001.open"] == tree(disk, "staging")
    sink.snapshot(1)
    assert ["staging/sink-0/g7/00000001-0001.pending"] == tree(disk, "staging")
    assert [] == committed(disk)
    sink.notify_complete(1)
    assert ([], [0, 1]) == (tree(disk, "staging"), committed(disk))
    assert ["committed/sink/part-00000001-0-7-0001.jsonl"] == tree(disk, "committed")
    expected = b'{"split":0,"offset":0,"key":"k0","value":"v0"}\n{"split":0,"offset":1,"key":"k1","value":"v1"}\n'
    assert expected == disk.read("committed/sink/part-00000001-0-7-0001.jsonl")


@pytest.mark.row("S22")
def test_parts_are_rolled_by_size_and_at_each_checkpoint_and_sort_by_checkpoint(disk: Any) -> None:
    sink = started(two_phase_files(disk, roll_bytes=90))
    for checkpoint_id in range(9, 12):
        sink.write(batch(checkpoint_id * 10, checkpoint_id * 10 + 1))
        sink.write(batch(checkpoint_id * 10 + 2))
        sink.snapshot(checkpoint_id)
    sink.notify_complete(11)
    parts = ["00000001", "00000010", "00000011"]
    expected = [f"committed/sink/part-{part}-0-1-{number}.jsonl" for part in parts for number in ("0001", "0002")]
    assert expected == tree(disk, "committed")
    assert [90, 91, 92, 100, 101, 102, 110, 111, 112] == committed(disk)


@pytest.mark.row("S22")
def test_rows_go_into_the_folder_of_their_bucket(disk: Any) -> None:
    sink = started(two_phase_files(disk, bucket=lambda row: f"odd={row.offset % 2}/all"))
    sink.write(batch(0, 1, 2))
    sink.snapshot(1)
    sink.notify_complete(1)
    assert [
        "committed/sink/odd=0/all/part-00000001-0-1-0001.jsonl",
        "committed/sink/odd=1/all/part-00000001-0-1-0002.jsonl",
    ] == tree(disk, "committed")
    assert [0, 2, 1] == committed(disk)


@pytest.mark.parametrize("bucket", ["", "/etc", "../up", "a/../b", "a/"])
def test_a_bucket_that_leads_out_of_the_folder_is_refused(disk: Any, bucket: str) -> None:
    with pytest.raises(ValueError, match="it must be a relative folder"):
        started(two_phase_files(disk, bucket=lambda row: bucket)).write(batch(0))


@pytest.mark.row("S18")
def test_a_restore_commits_what_was_promised_and_removes_everything_else(disk: Any) -> None:
    sink = started(two_phase_files(disk))
    sink.write(batch(0))
    state = sink.snapshot(1)
    sink.write(batch(1))
    sink.snapshot(2)
    sink.write(batch(2))
    again = restored(two_phase_files(disk), 2, state)
    assert ([0], []) == (committed(disk), readers.transactions_residue(disk))
    again.write(batch(1, 2))
    again.snapshot(3)
    again.notify_complete(3)
    assert [0, 1, 2] == committed(disk)


RECOVER = """
import sys
from sinkproof.sink_adapters.protocol import Context
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.file_transactions import FileTransactions
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

sink = TwoPhaseCommitSink(FileTransactions(Files(RealDisk(sys.argv[1]))))
sink.open(Context(generation=2, checkpoint_id_restored=1, restored=[(0, sys.argv[2].encode())]))
"""


@pytest.mark.row("S22")
def test_another_process_can_commit_from_the_bytes_alone(tmp_path: Path) -> None:
    sink = started(two_phase_files(RealDisk(tmp_path), roll_bytes=1))
    sink.write(batch(0))
    sink.write(batch(1))
    state = sink.snapshot(1)
    subprocess.run([sys.executable, "-c", RECOVER, str(tmp_path), state.decode()], check=True)
    assert [0, 1] == committed(RealDisk(tmp_path))


@pytest.mark.row("S22")
def test_files_of_removed_subtasks_are_committed_or_removed(disk: Any) -> None:
    old = [started(two_phase_files(disk), subtask=subtask, parallelism=3) for subtask in range(3)]
    for subtask, sink in enumerate(old):
        sink.write(batch(subtask))
    states = [sink.snapshot(1) for sink in old]
    for subtask, sink in enumerate(old):
        sink.write(batch(10 + subtask))
    restored(two_phase_files(disk), 2, *states)
    assert ([0, 1, 2], []) == (committed(disk), readers.transactions_residue(disk))


@pytest.mark.row("S22")
def test_every_call_of_a_zombie_is_fenced(disk: Any) -> None:
    attempts = [lambda sink: sink.write(batch(2)), lambda sink: sink.snapshot(2)]
    for generation, act in enumerate(attempts, start=1):
        zombie = started(two_phase_files(disk, roll_bytes=1), generation=generation)
        zombie.write(batch(1))
        started(two_phase_files(disk), generation=10)
        before = disk.freeze()
        with pytest.raises(Fenced, match=f"staging/sink-0/g{generation} is gone"):
            act(zombie)
        if isinstance(disk, RealDisk):
            assert before == disk.freeze()
        disk.thaw(type(disk)().freeze() if isinstance(disk, MemoryDisk) else {})


@pytest.mark.row("S22")
def test_rows_that_a_zombie_writes_to_its_open_file_are_never_visible(disk: Any) -> None:
    zombie = started(two_phase_files(disk))
    zombie.write(batch(0))
    state = zombie.snapshot(1)
    zombie.write(batch(1))
    restored(two_phase_files(disk), 2, state)
    zombie.write(batch(2))  # into a renamed file
    with pytest.raises(Fenced):
        zombie.snapshot(2)
    assert ([0], []) == (committed(disk), readers.transactions_residue(disk))


@pytest.mark.row("S22")
def test_a_zombie_may_commit_a_complete_checkpoint_again(disk: Any) -> None:
    zombie = started(two_phase_files(disk))
    zombie.write(batch(0))
    state = zombie.snapshot(1)
    restored(two_phase_files(disk), 2, state)
    assert [] == list(zombie.notify_complete(1) or ())
    assert [0] == committed(disk)


@pytest.mark.row("S22")
def test_an_attempt_that_was_replaced_before_open_is_fenced(disk: Any) -> None:
    started(two_phase_files(disk), generation=2)
    with pytest.raises(Fenced, match="generation 1 of sink-0 has been replaced by 2"):
        started(two_phase_files(disk), generation=1)


@pytest.mark.row("S21")
def test_a_missing_pending_file_fails_the_job(disk: Any) -> None:
    sink = started(two_phase_files(disk))
    sink.write(batch(0))
    state = sink.snapshot(1)
    disk.unlink("staging/sink-0/g1/00000001-0001.pending")
    for lost in (lambda: sink.notify_complete(1), lambda: restored(two_phase_files(disk), 2, state)):
        with pytest.raises(TransactionLost, match="checkpoint 1 of sink-0 is complete"):
            lost()


def test_a_file_of_another_job_is_never_overwritten(disk: Any) -> None:
    for rows, other in ((batch(0), False), (batch(5), True)):
        sink = started(two_phase_files(disk))
        sink.write(rows)
        sink.snapshot(1)
        if other:
            with pytest.raises(FileExistsError, match="two jobs write to one folder"):
                sink.notify_complete(1)
        else:
            sink.notify_complete(1)
    assert [0] == committed(disk)


@pytest.mark.row("S22")
def test_leftovers_do_not_grow_with_the_number_of_crashes_in_open(disk: Any) -> None:
    sink = started(two_phase_files(disk))
    sink.write(batch(0))
    state = sink.snapshot(1)
    frozen, points = disk.freeze(), list[str]()
    restored(two_phase_files(disk), 2, state, reach=points.append)
    assert len(points) > 8
    for at in range(len(points)):
        disk.thaw(frozen)
        for generation in range(2, 8):
            with suppress(Crashed):
                restored(two_phase_files(disk), generation, state, reach=crashing_at(at))
            assert len(readers.transactions_residue(disk)) <= 1


@pytest.mark.row("S22")
def test_the_state_text_counts_uncommittable_files_up_to_two_and_no_empty_folder(disk: Any) -> None:
    sink = started(two_phase_files(disk, roll_bytes=1), generation=700001)
    texts, named = [readers.transactions_text(disk, "nothing")], []
    for number in range(3):
        sink.write(batch(number))
        texts.append(readers.transactions_text(disk, "nothing"))
        named.append(readers.transactions_text(disk, "... sink-0-700001-1 ..."))
    assert 3 == len(set(texts)), "three are as two"
    assert texts[2] == texts[3]
    assert not any("split" in text for text in texts)
    assert [1, 2, 3] == [text.count('"split"') for text in named]
    disk.make_directory("fenced/sink-1")
    assert texts[3] == readers.transactions_text(disk, "nothing")


def test_two_sinks_in_one_folder_do_not_interfere(disk: Any) -> None:
    sinks = [started(two_phase_files(disk), sink_id=sink_id) for sink_id in ("a", "a-0", "b/c")]
    for offset, sink in enumerate(sinks):
        sink.write(batch(offset))
        sink.snapshot(1)
    started(two_phase_files(disk), sink_id="a", generation=2)
    for sink in sinks[1:]:
        sink.notify_complete(1)
    assert [1, 2] == committed(disk)
    assert ["a-0", "b%2Fc"] == disk.list("committed")


@pytest.mark.row("S22")
@pytest.mark.parametrize("make", [two_phase_files, masked_files])
def test_parquet_holds_the_same_rows(disk: Any, make: Any) -> None:
    sink = started(make(disk, form=PARQUET, roll_bytes=100))
    for checkpoint_id in (1, 2):
        sink.write(batch(checkpoint_id * 10, checkpoint_id * 10 + 1))
        sink.write(batch(checkpoint_id * 10 + 2))
        sink.snapshot(checkpoint_id)
    sink.notify_complete(2)
    read = readers.read_committed if make is two_phase_files else readers.read_masked
    assert [10, 11, 12, 20, 21, 22] == [offset for _, offset in read(disk, form=PARQUET)]


@pytest.mark.parametrize("form", [JSON_LINES, PARQUET], ids=["JSON lines", "Parquet"])
def test_rows_with_any_text_are_read_back_equal(form: Any) -> None:
    nasty = ['"', "\\", "\n", '{"split":1,"offset":2,"x":0}\n', "ü☃\U0001f600", "", "}\n", '"}\n', "\x00\u2028"]
    rows = [Row(3, offset, key, key[::-1]) for offset, key in enumerate(nasty)]
    writer = form.writer()
    content = writer.add(Batch(rows)) + writer.finish()
    assert rows == form.rows(content)
    assert [row[:2] for row in rows] == form.identities(content)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_torn_line_does_not_count(cut: int) -> None:
    content = JSON_LINES.writer().add(Batch([Row(0, 0, "k", "v"), Row(0, 11, "k}", '{"split":0}\n')]))
    assert [(0, 0)] == JSON_LINES.identities(content[:-cut])
