"""S22: the life of a part file, its folders, and what another process needs to finish it."""

from __future__ import annotations

import json
from typing import Any, Final

from sinkproof.execution.recorded_job import Identity, letters, once_each, play
from sinkproof.explain.demonstration import Scene, Step, check, fact, rows_named
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
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
    "a file is in progress, then pending (synced, and named in the checkpoint), then committed by one rename: there is "
    "no moment in which half of it is visible, and whoever has the handle can finish it."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
ROLL_BYTES: Final = 120


def scenes() -> tuple[Scene, ...]:
    return (_life(), _rolled(), _buckets(), _crashed(), _torn())


def tree(disk: MemoryDisk, *, folder: str = "") -> list[str]:
    """Every file, by path."""
    found: list[str] = []
    for name in disk.list(folder):
        path = f"{folder}/{name}" if folder else name
        found += tree(disk, folder=path) if disk.is_folder(path) else [path]
    return found


def _sink(disk: MemoryDisk, **options: Any) -> TwoPhaseCommitSink:
    return TwoPhaseCommitSink(FileTransactions(Files(disk), **options))


def _batch(*at: tuple[int, int]) -> Batch:
    return Batch(SOURCE.batch(split, offset).rows[0] for split, offset in at)


def _life() -> Scene:
    """By hand: two checkpoints; the second one is finished by a process that has nothing but the bytes."""
    disk = MemoryDisk()
    sink = _sink(disk)
    looks: list[tuple[str, list[str], list[Identity]]] = []

    def look(what: str) -> None:
        looks.append((what, tree(disk), readers.read_committed(disk)))

    sink.open(Context(generation=1))
    sink.write(_batch((0, 0), (0, 1)))
    look("rows written")
    state = sink.snapshot(1)
    look("snapshot 1")
    sink.notify_complete(1)
    look("told: 1 is complete")
    sink.write(_batch((0, 2)))
    state = sink.snapshot(2)
    sink.write(_batch((0, 3)))
    look("snapshot 2, one row more")
    handles = [entry[2] for entry in json.loads(state)["pending"]]
    other = _sink(disk)  # the first one is never heard of again
    other.open(
        Context(
            generation=2, checkpoint_id_restored=2, restored=[(0, state)], subtasks_restored=[0], parallelism_restored=1
        )
    )
    look("another process opened")
    suffixes = [[path.rpartition("/")[2].partition(".")[2] for path in files] for _, files, _ in looks]
    return Scene(
        title="In progress, pending, committed; finished by handle",
        ran="one two-phase file sink by hand; the second checkpoint is finished by another, from the snapshot's bytes",
        unit="step",
        steps=tuple(
            step
            for number, (what, files, _) in enumerate(looks, start=1)
            for step in [
                Step(at=number, lane="sink", what=what),
                *(Step(at=number, lane="target", what=path) for path in files),
            ]
        ),
        facts=(
            fact(f"handle in snapshot 2: {', '.join(handles)}", handles),
            *(fact(f"{what}: a reader sees {rows_named(rows)}", rows) for what, _, rows in looks),
        ),
        outcome=f"in the end {rows_named(looks[-1][2])} are committed; the row behind snapshot 2 is gone, and will be "
        "replayed",
        checks=(
            check(
                "the file's states",
                [["open"], ["pending"], ["jsonl"], ["jsonl", "open", "pending"], ["jsonl", "jsonl"]],
                [sorted(of) for of in suffixes],
            ),
            check(
                "visible only when committed",
                [[], [], [(0, 0), (0, 1)], [(0, 0), (0, 1)], [(0, 0), (0, 1), (0, 2)]],
                [rows for _, _, rows in looks],
            ),
        ),
    )


def _rolled() -> Scene:
    disk = MemoryDisk()
    sink = _sink(disk, roll_bytes=ROLL_BYTES)
    sink.open(Context())
    for offset in range(6):
        sink.write(_batch((0, offset)))
    sink.snapshot(1)
    sink.notify_complete(1)
    sink.write(_batch((0, 6)))
    sink.snapshot(2)
    sink.notify_complete(2)
    parts = {part.path: JSON_LINES.identities(disk.read(part.path)) for part in readers.committed_parts(disk)}
    sizes = {path: len(disk.read(path)) for path in parts}
    by_checkpoint = [sum(f"part-{sequence:08d}-" in path for path in parts) for sequence in (1, 2)]
    full = [size for path, size in sizes.items() if "part-00000001-" in path][:-1]
    return Scene(
        title=f"Part files are rolled by size ({ROLL_BYTES} bytes) and with each checkpoint",
        ran="six rows, checkpoint 1, one row, checkpoint 2",
        facts=tuple(fact(f"{path} ({sizes[path]} bytes): {rows_named(rows)}", rows) for path, rows in parts.items()),
        outcome=f"{by_checkpoint[0]} files of checkpoint 1, {by_checkpoint[1]} of checkpoint 2",
        checks=(
            check("several for the larger one, one for the other", (True, 1), (by_checkpoint[0] > 1, by_checkpoint[1])),
            check("a file is rolled as soon as it is large enough", True, bool(full) and min(full) >= ROLL_BYTES),
            check(
                "all rows, in order",
                [(0, offset) for offset in range(7)],
                [row for rows in parts.values() for row in rows],
            ),
        ),
    )


def _buckets() -> Scene:
    disk = MemoryDisk()
    sink = _sink(disk, bucket=lambda row: f"key={row.key}")
    sink.open(Context())
    sink.write(_batch((0, 0), (0, 1), (0, 4), (1, 0)))
    sink.snapshot(1)
    sink.notify_complete(1)
    parts = {part.path: JSON_LINES.identities(disk.read(part.path)) for part in readers.committed_parts(disk)}
    found: dict[str, list[Identity]] = {}
    for path, rows in parts.items():
        found.setdefault(path.split("/")[2], []).extend(rows)
    wanted: dict[str, list[Identity]] = {}
    for row in _batch((0, 0), (0, 1), (0, 4), (1, 0)):
        wanted.setdefault(f"key={row.key}", []).append(row[:2])
    return Scene(
        title="Buckets: a folder for each key",
        ran="four rows in one transaction, bucket = key",
        facts=tuple(fact(f"{bucket}: {rows_named(rows)}", rows) for bucket, rows in sorted(found.items())),
        outcome=f"one transaction commits {len(parts)} files in {len(found)} buckets",
        checks=(check("every row is in the bucket of its key", wanted, found),),
    )


def _crashed() -> Scene:
    """Between the renames of one transaction: some of its files are committed, some are not."""
    disk = MemoryDisk()
    run = play(
        source_to_sink(SOURCE).plan(),
        lambda: _sink(disk, roll_bytes=1),
        read=lambda: readers.read_committed(disk),
        look=lambda: tree(disk),
        schedule="sink[0].commit.before#2=kill sink[0].file.rename#12=kill",
    )
    seen = sorted(run.stage.visible_when_struck[-1])
    left = [path for path in run.stage.looked_when_struck[-1] if path.endswith(".pending")]
    finished = [path for path in tree(disk) if path.startswith("committed/")]
    residue = readers.transactions_residue(disk)
    return Scene(
        title="Deaths at a commit, and between the renames of the recovery",
        ran=f"source x2 -> file sink x2, a file for each row, {run.schedule}",
        steps=run.steps(
            "complete",
            "generation",
            "restored",
            points=["commit.after"],
            actors=("coordinator", "sink[0]"),
            since=28,
            until=70,
        ),
        facts=(
            fact(f"at the second death {len(left)} files were pending: {', '.join(left)}", left),
            fact(f"visible then: {rows_named(seen)}", seen),
        ),
        outcome=f"generation {run.generations} finishes it: {len(finished)} files committed, left over: {len(residue)}",
        checks=(
            check("both deaths struck", 2, len(run.of("fault"))),
            check("files were pending", True, bool(left)),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
            check("no file is left in progress or pending", [], residue),
        ),
    )


def _torn() -> Scene:
    """A log whose writer died in the middle of a line. Nobody resumes such a file: readers stop at its valid length."""
    disk = MemoryDisk()
    first = PlainSink(FileLog(Files(disk)))
    first.open(Context(generation=1))
    first.write(_batch((0, 0), (0, 1)))
    path = tree(disk)[0]
    whole = disk.read(path)
    disk.unlink(path)
    disk.write(disk.create(path), whole + whole[: len(whole) // 2 - 3])  # as it died in the middle of a third line
    second = PlainSink(FileLog(Files(disk)))
    second.open(Context(generation=2))
    second.write(_batch((0, 1), (0, 2)))
    rows = readers.read_log(disk)
    return Scene(
        title="A line that was torn by the crash",
        ran="a plain file sink dies in the middle of a line; the next attempt writes on",
        facts=(
            fact(f"files: {', '.join(tree(disk))}", tree(disk)),
            fact(
                f"valid length of the first: {len(whole)} of {len(disk.read(path))} bytes",
                [len(whole), len(disk.read(path))],
            ),
        ),
        outcome=f"a reader sees {rows_named(rows)}: up to the valid length of one file, then the other",
        checks=(
            check("the torn line does not count, and hides nothing", [(0, 0), (0, 1), (0, 1), (0, 2)], rows),
            check("nobody writes behind it", 2, len(tree(disk))),
        ),
    )
