"""S22: the life of a part file, its buckets, and what another process needs to finish it."""

from __future__ import annotations

import json
from typing import Any, Final

from sinkproof.execution.recorded_job import Identity
from sinkproof.explain.demonstration import Scene, TimelineEntry, rows_named
from sinkproof.explain.small_jobs import LETTERS, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.sink_adapters.files import file_readers as readers
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.file_transactions import FileTransactions
from sinkproof.sink_adapters.files.log_files import FileLog
from sinkproof.sink_adapters.files.row_formats import JSON_LINES
from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "a file is in progress, then pending (synced, and named in the checkpoint), then committed by one rename: at no "
    "moment is half of it visible, and any process with the handle can finish it."
)
ROLL_BYTES: Final = 120


def scenes() -> tuple[Scene, ...]:
    return (_life(), _rolled(), _buckets(), _crashed(), _torn())


class FileTarget:
    """Part files on a disk in memory. `options`: of FileTransactions."""

    def __init__(self, **options: Any) -> None:
        self.disk, self.options = MemoryDisk(), options

    def sink(self) -> TwoPhaseCommitSink:
        return TwoPhaseCommitSink(FileTransactions(Files(self.disk), **self.options))

    def read(self) -> list[Identity]:
        return readers.read_committed(self.disk)

    def parts(self) -> dict[str, list[Identity]]:
        """Path -> rows of each committed part file."""
        paths = [part.path for part in readers.committed_parts(self.disk)]
        return {path: JSON_LINES.identities(self.disk.read(path)) for path in paths}


def _tree(disk: MemoryDisk, *, folder: str = "") -> list[str]:
    """Every file, by path."""
    found: list[str] = []
    for name in disk.list(folder):
        path = f"{folder}/{name}" if folder else name
        found += _tree(disk, folder=path) if disk.is_folder(path) else [path]
    return found


def _batch(*at: tuple[int, int]) -> Batch:
    return Batch(LETTERS.make(split, offset) for split, offset in at)


def _checkpointed(sink: TwoPhaseCommitSink, checkpoint_id: int) -> None:
    sink.snapshot(checkpoint_id)
    sink.notify_complete(checkpoint_id)


def _life() -> Scene:
    """Two checkpoints; the second is finished by a process that has nothing but the bytes of the snapshot."""
    target = FileTarget()
    observed: list[tuple[str, list[str], list[Identity]]] = []

    def observe(event: str) -> None:
        observed.append((event, _tree(target.disk), target.read()))

    sink, other = target.sink(), target.sink()
    sink.open(Context(generation=1))
    sink.write(_batch((0, 0), (0, 1)))
    observe("rows written")
    sink.snapshot(1)
    observe("snapshot 1")
    sink.notify_complete(1)
    observe("notified: 1 complete")
    sink.write(_batch((0, 2)))
    state = sink.snapshot(2)
    sink.write(_batch((0, 3)))
    observe("snapshot 2, one row more")
    handles = [entry[2] for entry in json.loads(state)["pending"]]
    restored: dict[str, Any] = {"restored": [(0, state)], "subtasks_restored": [0], "parallelism_restored": 1}
    other.open(Context(generation=2, checkpoint_id_restored=2, **restored))
    observe("another process opened")
    scene = Scene("In progress, pending, committed; finished by handle", unit="step")
    scene.ran = (
        "one two-phase file sink, called step by step; the second checkpoint is finished by another sink, from the "
        "snapshot's bytes"
    )
    scene.steps = tuple(
        TimelineEntry(at=number, lane=lane, what=what)
        for number, (event, files, _) in enumerate(observed, start=1)
        for lane, what in [("sink", event), *(("target", path) for path in files)]
    )
    scene.fact(f"handle in snapshot 2: {', '.join(handles)}", handles)
    for event, _, rows in observed:
        scene.fact(f"{event}: a reader sees {rows_named(rows)}", rows)
    scene.check(
        "the file's states",
        [["open"], ["pending"], ["jsonl"], ["jsonl", "open", "pending"], ["jsonl", "jsonl"]],
        [sorted(path.rpartition("/")[2].partition(".")[2] for path in files) for _, files, _ in observed],
    )
    scene.check(
        "visible only when committed",
        [[], [], [(0, 0), (0, 1)], [(0, 0), (0, 1)], [(0, 0), (0, 1), (0, 2)]],
        [rows for _, _, rows in observed],
    )
    return scene.finish(
        f"in the end {rows_named(observed[-1][2])} are committed; the row behind snapshot 2 is gone, and will "
        "be replayed"
    )


def _rolled() -> Scene:
    target = FileTarget(roll_bytes=ROLL_BYTES)
    sink = target.sink()
    sink.open(Context())
    for offset in range(6):
        sink.write(_batch((0, offset)))
    _checkpointed(sink, 1)
    sink.write(_batch((0, 6)))
    _checkpointed(sink, 2)
    parts = target.parts()
    sizes = {path: len(target.disk.read(path)) for path in parts}
    first, second = (sum(f"part-{sequence:08d}-" in path for path in parts) for sequence in (1, 2))
    full = [size for path, size in sizes.items() if "part-00000001-" in path][:-1]
    scene = Scene(f"Part files are rolled by size ({ROLL_BYTES} bytes) and with each checkpoint")
    scene.ran = "six rows, checkpoint 1, one row, checkpoint 2"
    for path, rows in parts.items():
        scene.fact(f"{path} ({sizes[path]} bytes): {rows_named(rows)}", rows)
    scene.check("several for the larger one, one for the other", (True, 1), (first > 1, second))
    scene.check("a file is rolled as soon as it is large enough", True, bool(full) and min(full) >= ROLL_BYTES)
    scene.check("all rows, in order", [(0, at) for at in range(7)], [row for rows in parts.values() for row in rows])
    return scene.finish(f"{first} files of checkpoint 1, {second} of checkpoint 2")


def _buckets() -> Scene:
    target, batch = FileTarget(bucket=lambda row: f"key={row.key}"), _batch((0, 0), (0, 1), (0, 4), (1, 0))
    sink = target.sink()
    sink.open(Context())
    sink.write(batch)
    _checkpointed(sink, 1)
    parts = target.parts()
    found: dict[str, list[Identity]] = {}
    for path, rows in parts.items():
        found.setdefault(path.split("/")[2], []).extend(rows)
    wanted = {f"key={row.key}": [same[:2] for same in batch if same.key == row.key] for row in batch}
    scene = Scene("Buckets: a folder for each key")
    scene.ran = "four rows in one transaction, bucket = key"
    for bucket, rows in sorted(found.items()):
        scene.fact(f"{bucket}: {rows_named(rows)}", rows)
    scene.check("every row is in the bucket of its key", wanted, found)
    return scene.finish(f"one transaction commits {len(parts)} files in {len(found)} buckets")


def _crashed() -> Scene:
    """Between the renames of one transaction: some of its files are committed, some are not."""
    target = FileTarget(roll_bytes=1)
    run = run_job(
        target=target,
        probe=lambda: _tree(target.disk),
        schedule="sink[0].commit.before#2=kill sink[0].file.rename#12=kill",
    )
    visible = sorted(run.seen.visible_at_fault[-1])
    left = [path for path in run.seen.probed_at_fault[-1] if path.endswith(".pending")]
    finished = [path for path in _tree(target.disk) if path.startswith("committed/")]
    residue = readers.transactions_residue(target.disk)
    lanes = ("coordinator", "sink[0]")
    scene = Scene("A crash at a commit, and another between the renames of the recovery")
    scene.ran = f"source x2 -> file sink x2, a file for each row, {run.schedule}"
    scene.steps = timeline(run, *RECOVERY, points=["commit.after"], actors=lanes, since=28, until=70)
    scene.fact(f"at the second crash {len(left)} files were pending: {', '.join(left)}", left)
    scene.fact(f"visible then: {rows_named(visible)}", visible)
    scene.check("both faults were injected", 2, len(run.of("fault")))
    scene.check("files were pending", True, bool(left))
    scene.check_each_row_once(run)
    scene.check("no file is left in progress or pending", [], residue)
    return scene.finish(
        f"generation {run.generations} finishes it: {len(finished)} files committed, left over: {len(residue)}"
    )


def _torn() -> Scene:
    """A log file that ends in the middle of a line is never written again: readers stop at its valid length."""
    disk = MemoryDisk()
    first, second = (PlainSink(FileLog(Files(disk))) for _ in range(2))
    first.open(Context(generation=1))
    first.write(_batch((0, 0), (0, 1)))
    path = _tree(disk)[0]
    whole = disk.read(path)
    disk.unlink(path)
    disk.write(disk.create(path), whole + whole[: len(whole) // 2 - 3])  # the crash was in the middle of a third line
    second.open(Context(generation=2))
    second.write(_batch((0, 1), (0, 2)))
    rows, files, torn = readers.read_log(disk), _tree(disk), len(disk.read(path))
    scene = Scene("A line that was torn by the crash")
    scene.ran = "a plain file sink crashes in the middle of a line; the next attempt writes on"
    scene.fact(f"files: {', '.join(files)}", files)
    scene.fact(f"valid length of the first: {len(whole)} of {torn} bytes", [len(whole), torn])
    scene.check("the torn line is not read, and hides no other", [(0, 0), (0, 1), (0, 1), (0, 2)], rows)
    scene.check("the next attempt writes to a file of its own", 2, len(files))
    return scene.finish(f"a reader sees {rows_named(rows)}: up to the valid length of one file, then the other")
