"""S08: the contents of a checkpoint, what the coordinator keeps of it, and how a loss or damage is handled."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.checkpoint_folders import listing, scratch_folder
from sinkproof.explain.demonstration import Scene, check, counts_named, fact
from sinkproof.explain.small_jobs import (
    COUNTED,
    COUNTING,
    Transactional,
    each_row_once,
    greatest_values,
    run_job,
    true_counts,
)
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.sink_adapters.protocol import Fenced

LESSON: Final = (
    "user state and system state are one snapshot; in the coordinator's memory it is lost with the coordinator, in a "
    "folder it survives every process, and a damaged one is refused with a message."
)
CRASH: Final = "checkpoint.notify#2=kill-job"  # checkpoint 2 is complete


def scenes() -> tuple[Scene, ...]:
    return (
        _content(),
        _lost_with_memory(),
        _folder(),
        *([_objects()] if find_spec("fsspec") is not None else []),  # an optional package
        _damaged(),
    )


def _run(storage: Any, *, schedule: str = CRASH) -> tuple[RecordedRun, dict[str, int]]:
    """And the counts delivered."""
    target = Transactional()
    run = run_job(COUNTING, target=target, storage=storage, schedule=schedule)
    return run, greatest_values(target.rows)


def _parts(record: CheckpointRecord) -> tuple[dict[int, int], dict[str, int], list[str]]:
    """(offsets, counts, pre-committed transactions)."""
    states = record.states.values()
    offsets = dict(pair for of in states if "source" in of for pair in decode_offsets(of["source"]))
    counts = {key: n for of in states for group in of.get("count", {}).values() for key, n in json.loads(group).items()}
    pending = [entry[2] for of in states if "sink" in of for entry in json.loads(of["sink"])["pending"]]
    return dict(sorted(offsets.items())), counts, pending


def _content() -> Scene:
    run, _ = _run(MemoryCheckpointStorage(), schedule="no-fault")
    record = run.seen.decided[0]
    offsets, counts, pending = _parts(record)
    rows = [COUNTED.batch(*row).rows[0] for row in run.covered(record.checkpoint_id)]
    right = {key: sum(row.key == key for row in rows) for key in sorted({row.key for row in rows})}
    return Scene(
        title="What checkpoint 1 holds",
        ran="2 sources -> keyed count -> two-phase sink; the record of checkpoint 1 decoded",
        facts=(
            fact(f"system state, offsets of the splits: {offsets}", offsets),
            fact(f"user state, counts by key: {counts_named(counts)}", counts),
            fact(f"system state, pre-committed transactions: {', '.join(pending)}", pending),
        ),
        outcome=f"the {len(rows)} rows below the offsets have the counts {counts_named(right)}, as in the state",
        checks=(
            check("the counts are those of the covered rows", right, counts),
            check("the sink's part names its pre-committed transaction", 1, len(pending)),
            check("a part for each subtask", ["sink[0]", "source[0]", "source[1]"], sorted(record.states)),
        ),
    )


class CoordinatorMemory(MemoryCheckpointStorage):
    """Of a coordinator: its successor gets its generation from elsewhere, and no checkpoint."""

    def claim_generation(self) -> int:
        self.record = None
        return super().claim_generation()


def _lost_with_memory() -> Scene:
    run, _ = _run(CoordinatorMemory())
    before, decided, restored = len(run.seen.visible_at_fault[0]), run.complete_at_crash, run.restored_from()
    _, repeated = run.lost_and_repeated
    return Scene(
        title="In the coordinator's memory: lost with it",
        ran=f"the same job, {CRASH}; the new coordinator's memory is empty",
        steps=timeline(run, *RECOVERY, until=run.crash_ms + 12),
        facts=(
            fact(f"checkpoints {decided} were complete, {before} rows visible", decided),
            fact(f"rows that become visible a second time: {len(repeated)}", repeated),
        ),
        outcome=f"generation 2 begins from {'nothing' if restored == [0] else restored}: the rows committed before "
        f"are delivered again ({len(repeated)} rows repeated)",
        checks=(
            check("a checkpoint was complete", True, bool(decided)),
            check("no checkpoint is left", [0], restored),
            check("the rows visible at the crash are the repeated rows", before, len(repeated)),
        ),
    )


class FolderWithDecisions(FolderCheckpointStorage):
    """Keeps the decisions in the form in which the coordinator passes them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, say=lambda text: None)
        self.decisions: list[CheckpointRecord] = []

    def decide(self, record: CheckpointRecord) -> None:
        self.decisions.append(record)
        super().decide(record)


def _folder() -> Scene:
    with scratch_folder() as folder:
        storage = FolderWithDecisions(folder)
        run, counts = _run(storage)
        left = listing(folder, pattern="chk-*/*")
    decided, restored = storage.decisions[0], run.restored_from()
    kinds = sorted({type(state).__name__ for state in decided.states.values()})
    sizes = {name: state.size_bytes for name, state in decided.states.items()}
    return Scene(
        title="In a folder: it survives every process",
        ran=f"the same job, checkpoints in a folder, {CRASH}",
        steps=timeline(run, *RECOVERY, until=run.crash_ms + 12),
        facts=(
            fact(
                f"what the coordinator keeps of checkpoint {decided.checkpoint_id}: {', '.join(kinds)} only, for "
                f"{sum(sizes.values())} bytes of states",
                sizes,
            ),
            fact(f"in the end the folder holds {', '.join(left)}", left),
        ),
        outcome=f"generation 2 is restored from checkpoint {restored}; counts {counts_named(counts)}",
        checks=(
            check("the coordinator keeps references only", ["Reference"], kinds),
            check("the decision is a file of its own", True, any(name.endswith("/decision.json") for name in left)),
            check("restored from checkpoint 2", [2], restored),
            check(
                "no row is lost or repeated, and the counts are right",
                ([], [], true_counts(COUNTED)),
                (*run.lost_and_repeated, counts),
            ),
        ),
    )


def _objects() -> Scene:
    """An object store cannot rename: objects are immutable, and a decision is one more object."""
    with scratch_folder() as folder:
        url = f"local://{folder}/objects"
        storage = ObjectCheckpointStorage(url, say=lambda text: None)
        run, counts = _run(storage)
        lines = listing(folder, pattern="objects/log/*")
        ObjectCheckpointStorage(url).claim_generation()
        fenced = ""
        try:
            storage.decide(run.seen.decided[-1]._replace(checkpoint_id=99))
        except Fenced as error:
            fenced = str(error).replace(str(folder), "FOLDER")
    restored, complete = run.restored_from(), len(run.of("complete"))
    return Scene(
        title="At any URL: immutable objects, and a log of decisions",
        ran=f"the same job, checkpoints in an object store, {CRASH}; then another coordinator claims a generation",
        facts=(
            fact(
                f"entries of the log: {len(lines)}, for {run.generations} generations and {complete} decisions", lines
            ),
            fact(f"a later decision of the superseded coordinator: {fenced or 'is accepted'}", fenced),
        ),
        outcome=f"generation 2 is restored from checkpoint {restored}; counts {counts_named(counts)}",
        checks=(
            check("one log entry for each decision and each generation", run.generations + complete, len(lines)),
            check("restored from checkpoint 2", [2], restored),
            each_row_once(run),
            check("the superseded coordinator is fenced", True, bool(fenced)),
        ),
    )


def _damaged() -> Scene:
    """A byte of the newest checkpoint changes on disk before the restore."""
    said: list[str] = []
    with scratch_folder() as folder:
        storage = FolderCheckpointStorage(folder, retained=2, say=said.append)
        _run(storage, schedule="no-fault")
        older, newer = storage.complete()
        victim = sorted((folder / f"chk-{newer}").glob("sink*.state"))[0]
        data = bytearray(victim.read_bytes())
        data[-1] ^= 1
        victim.write_bytes(data)
        later = FolderCheckpointStorage(folder, retained=2, say=said.append)
        later.claim_generation()
        latest = later.latest()
        used = latest.checkpoint_id if latest else None
        text = said[0].replace(str(folder), "FOLDER") if said else "nothing"
        text = re.sub(r"-[0-9a-f]{16}\.state", ".state", text)  # without digests
        aside = [name.rpartition("-")[0] for name in listing(folder, pattern="damaged-*")]
    return Scene(
        title="One byte changes on disk",
        ran=f"two checkpoints retained ({[older, newer]}); the last byte of a state of the newer one is flipped, then "
        "restored",
        facts=(fact(f"the message: {text}", text),),
        outcome=f"checkpoint {used or 'none'} is used instead of {newer}; the damaged one is set aside as "
        f"{', '.join(aside)}",
        checks=(
            check("the damaged one is refused, the one before it used", older, used),
            check("one message says so", 1, len(said)),
            check("the damaged one is kept for inspection", [f"damaged-{newer}"], aside),
        ),
    )
