"""S08: what is in a checkpoint, what the coordinator keeps of it, and what happens to it when things go wrong."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sinkproof.execution.recorded_job import Run, letters, once_each, play
from sinkproof.explain.checkpoint_folders import listing, scratch_folder
from sinkproof.explain.demonstration import Scene, check, counts_named, fact
from sinkproof.explain.small_jobs import Transactional, counting_plan, greatest_values, true_counts
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.sink_adapters.protocol import Fenced

LESSON: Final = (
    "user state and system state are one snapshot; in the coordinator's memory it dies with the coordinator, in a "
    "folder it outlives everybody, and what cannot be trusted is refused aloud."
)
SOURCE: Final = letters("aabaab|babaab")
CRASH: Final = "checkpoint.notify#2=kill-job"  # checkpoint 2 is complete


def scenes() -> tuple[Scene, ...]:
    return (
        _content(),
        _lost_with_memory(),
        _folder(),
        *([_objects()] if find_spec("fsspec") is not None else []),  # an optional package
        _damaged(),
    )


def _run(target: Transactional, storage: Any, *, schedule: str = "no-fault") -> Run:
    return play(counting_plan(SOURCE), target.sink, read=target.read, storage=storage, schedule=schedule)


def _parts(record: CheckpointRecord) -> tuple[dict[int, int], dict[str, int], list[str]]:
    """(offsets, counts, pre-committed transactions)."""
    states = record.states.values()
    offsets = dict(pair for of in states if "source" in of for pair in decode_offsets(of["source"]))
    counts = {key: n for of in states for group in of.get("count", {}).values() for key, n in json.loads(group).items()}
    pending = [entry[2] for of in states if "sink" in of for entry in json.loads(of["sink"])["pending"]]
    return dict(sorted(offsets.items())), counts, pending


def _content() -> Scene:
    run = _run(Transactional(), MemoryCheckpointStorage())
    record = run.stage.decided[0]
    offsets, counts, pending = _parts(record)
    rows = [row for split, end in offsets.items() for row in (SOURCE.batch(split, at).rows[0] for at in range(end))]
    right = {key: sum(row.key == key for row in rows) for key in sorted({row.key for row in rows})}
    return Scene(
        title="What checkpoint 1 holds",
        ran="2 sources -> keyed count -> two-phase sink; the record of checkpoint 1 taken apart",
        facts=(
            fact(f"system state, offsets of the splits: {offsets}", offsets),
            fact(f"user state, counts by key: {counts_named(counts)}", counts),
            fact(f"system state, pre-committed transactions: {', '.join(pending)}", pending),
        ),
        outcome=f"the {len(rows)} rows below the offsets give {counts_named(right)}, which is what the state says",
        checks=(
            check("the counts are those of the covered rows", right, counts),
            check("the sink's part names its open business", 1, len(pending)),
            check("a part for each subtask", ["sink[0]", "source[0]", "source[1]"], sorted(record.states)),
        ),
    )


def _lost_with_memory() -> Scene:
    """The storage is the coordinator's memory; whoever takes over has an empty one."""
    target = Transactional()
    stopped = _run(target, Forgetful(), schedule=CRASH)
    crash = stopped.of("fault")[0].at_ms
    before = len(stopped.stage.visible_when_struck[0])
    decided = [each.detail for each in stopped.of("complete") if each.at_ms <= crash]
    restored = sorted({each.detail or 0 for each in stopped.of("restored") if each.generation == 2})
    _, extra = once_each(SOURCE, stopped.visible)
    return Scene(
        title="In the coordinator's memory: lost with it",
        ran=f"the same job, {CRASH}; the new coordinator's memory is empty",
        steps=stopped.steps("complete", "generation", "restored", until=crash + 12),
        facts=(
            fact(f"checkpoints {decided} were complete, {before} rows visible", decided),
            fact(f"rows that are visible again: {len(extra)}", extra),
        ),
        outcome=f"generation 2 begins from {'nothing' if restored == [0] else restored}: whatever was committed before "
        f"is delivered again ({len(extra)} rows repeated)",
        checks=(
            check("something was complete", True, bool(decided)),
            check("nothing is left of it", [0], restored),
            check("what was visible at the crash is what is repeated", before, len(extra)),
        ),
    )


class Forgetful(MemoryCheckpointStorage):
    """Memory of a coordinator: the next one has its generation from elsewhere, and nothing more."""

    def claim_generation(self) -> int:
        self.record = None
        return super().claim_generation()


def _folder() -> Scene:
    with scratch_folder() as folder:
        target, storage = Transactional(), Handed(folder)
        run = _run(target, storage, schedule=CRASH)
        left = listing(folder, pattern="chk-*/*")
    restored = sorted({each.detail for each in run.of("restored") if each.generation == 2})
    decided = storage.handed[0]
    kept = {name: type(state).__name__ for name, state in decided.states.items()}
    bytes_kept = {name: state.size_bytes for name, state in decided.states.items()}
    lost, extra = once_each(SOURCE, run.visible)
    counts = greatest_values(target.rows)
    return Scene(
        title="In a folder: it outlives everybody",
        ran=f"the same job, checkpoints in a folder, {CRASH}",
        steps=run.steps("complete", "generation", "restored", until=run.of("fault")[0].at_ms + 12),
        facts=(
            fact(
                f"what the coordinator keeps of checkpoint {decided.checkpoint_id}: "
                f"{', '.join(sorted(set(kept.values())))} only, for {sum(bytes_kept.values())} bytes of states",
                bytes_kept,
            ),
            fact(f"in the end the folder holds {', '.join(left)}", left),
        ),
        outcome=f"generation 2 is restored from checkpoint {restored}; counts {counts_named(counts)}",
        checks=(
            check("the coordinator keeps references only", ["Reference"], sorted(set(kept.values()))),
            check("the decision is a file of its own", True, any(name.endswith("/decision.json") for name in left)),
            check("restored from checkpoint 2", [2], restored),
            check(
                "nothing is lost or repeated, and the counts are right",
                ([], [], true_counts(SOURCE)),
                (lost, extra, counts),
            ),
        ),
    )


class Handed(FolderCheckpointStorage):
    """Keeps the decisions as the coordinator handed them over."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, say=lambda text: None)
        self.handed: list[CheckpointRecord] = []

    def decide(self, record: CheckpointRecord) -> None:
        self.handed.append(record)
        super().decide(record)


def _objects() -> Scene:
    """Where nothing can be renamed: what is written never changes, and a decision is one object more."""
    with scratch_folder() as folder:
        url = f"local://{folder}/objects"
        target, storage = Transactional(), ObjectCheckpointStorage(url, say=lambda text: None)
        run = _run(target, storage, schedule=CRASH)
        lines = listing(folder, pattern="objects/log/*")
        ObjectCheckpointStorage(url).claim_generation()
        fenced = ""
        try:
            storage.decide(run.stage.decided[-1]._replace(checkpoint_id=99))
        except Fenced as error:
            fenced = str(error).replace(str(folder), "FOLDER")
    restored = sorted({each.detail for each in run.of("restored") if each.generation == 2})
    complete = [each.detail for each in run.of("complete")]
    return Scene(
        title="At any URL: objects that never change, and a log of decisions",
        ran=f"the same job, checkpoints in an object store, {CRASH}; then another coordinator claims a generation",
        facts=(
            fact(
                f"lines of the log: {len(lines)}, for {run.generations} generations and {len(complete)} decisions",
                lines,
            ),
            fact(f"what the superseded coordinator still wants to decide: {fenced or 'is decided'}", fenced),
        ),
        outcome=f"generation 2 is restored from checkpoint {restored}; counts "
        f"{counts_named(greatest_values(target.rows))}",
        checks=(
            check("a decision is one line, and so is a generation", run.generations + len(complete), len(lines)),
            check("restored from checkpoint 2", [2], restored),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
            check("who was superseded decides nothing any more", True, bool(fenced)),
        ),
    )


def _damaged() -> Scene:
    """A byte of the newest checkpoint changes on disk; then somebody restores."""
    said: list[str] = []
    with scratch_folder() as folder:
        target = Transactional()
        storage = FolderCheckpointStorage(folder, retained=2, say=said.append)
        _run(target, storage)
        complete = storage.complete()
        victim = sorted((folder / f"chk-{complete[-1]}").glob("sink*.state"))[0]
        data = bytearray(victim.read_bytes())
        data[-1] ^= 1
        victim.write_bytes(data)
        later = FolderCheckpointStorage(folder, retained=2, say=said.append)
        later.claim_generation()
        used = later.latest()
        text = said[0].replace(str(folder), "FOLDER") if said else "nothing"
        aside = [name.rpartition("-")[0] for name in listing(folder, pattern="damaged-*")]
    return Scene(
        title="One byte changes on disk",
        ran=f"two checkpoints retained ({complete}); the last byte of a state of the newer one is flipped, then "
        "restored",
        facts=(fact(f"it says: {_without_digests(text)}", _without_digests(text)),),
        outcome=f"checkpoint {used.checkpoint_id if used else 'none'} is used instead of {complete[-1]}; the damaged "
        f"one is set aside as {', '.join(aside)}",
        checks=(
            check(
                "the damaged one is refused, the one before it used", complete[0], used.checkpoint_id if used else None
            ),
            check("somebody is told, once", 1, len(said)),
            check("it is kept for people to look at", [f"damaged-{complete[-1]}"], aside),
        ),
    )


def _without_digests(text: str) -> str:
    import re

    return re.sub(r"-[0-9a-f]{16}\.state", ".state", text)
