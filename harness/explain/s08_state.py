"""S08: the contents of a checkpoint, what the coordinator keeps of it, and how a loss or damage is handled."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from typing import Final

from sinkproof.explain.demonstration import Scene, counts_named
from sinkproof.explain.small_jobs import COUNTED, COUNTING, listing, refusal, run_job, scratch_folder
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_store import open_objects
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
        *([_objects()] if find_spec("obstore") is not None else []),  # an optional package
        _damaged(),
    )


def _content() -> Scene:
    run = run_job(plan=COUNTING)
    record = run.seen.decided[0]
    state, offsets = record.states["sink[0]"], run.offsets(record.checkpoint_id)
    counts = {key: n for group in state["count"].values() for key, n in json.loads(group).items()}
    pending = [entry[2] for entry in json.loads(state["sink"])["pending"]]
    rows = [COUNTED.make(*row) for row in run.covered(record.checkpoint_id)]
    right = {key: sum(row.key == key for row in rows) for key in sorted({row.key for row in rows})}
    scene = Scene("What checkpoint 1 holds")
    scene.ran = "2 sources -> keyed count -> two-phase sink; the record of checkpoint 1 decoded"
    scene.fact(f"system state, offsets of the splits: {offsets}", offsets)
    scene.fact(f"user state, counts by key: {counts_named(counts)}", counts)
    scene.fact(f"system state, pre-committed transactions: {', '.join(pending)}", pending)
    scene.check("the counts are those of the covered rows", right, counts)
    scene.check("the sink's part names its pre-committed transaction", 1, len(pending))
    scene.check("a part for each subtask", ["sink[0]", "source[0]", "source[1]"], sorted(record.states))
    return scene.finish(
        f"the {len(rows)} rows below the offsets have the counts {counts_named(right)}, as in the state"
    )


class CoordinatorMemory(MemoryCheckpointStorage):
    """Of a coordinator: its successor gets its generation from elsewhere, and no checkpoint."""

    def claim_generation(self) -> int:
        self.record = None
        return super().claim_generation()


def _lost_with_memory() -> Scene:
    run = run_job(plan=COUNTING, storage=CoordinatorMemory(), schedule=CRASH)
    before, decided, restored = len(run.seen.visible_at_fault[0]), run.complete_at_crash, run.restored_from()
    _, repeated = run.lost_and_repeated
    scene = Scene("In the coordinator's memory: lost with it")
    scene.ran = f"the same job, {CRASH}; the new coordinator's memory is empty"
    scene.steps = timeline(run, *RECOVERY, until=run.crash_ms + 12)
    scene.fact(f"checkpoints {decided} were complete, {before} rows visible", decided)
    scene.fact(f"rows that become visible a second time: {len(repeated)}", repeated)
    scene.check("a checkpoint was complete", True, bool(decided))
    scene.check("no checkpoint is left", [0], restored)
    scene.check("the rows visible at the crash are the repeated rows", before, len(repeated))
    return scene.finish(
        f"generation 2 begins from {'nothing' if restored == [0] else restored}: the rows committed before "
        f"are delivered again ({len(repeated)} rows repeated)"
    )


def _folder() -> Scene:
    with scratch_folder() as folder:
        storage = FolderCheckpointStorage(folder, say=lambda text: None)
        run = run_job(plan=COUNTING, storage=storage, schedule=CRASH)
        left = listing(folder, pattern="chk-*/*")
    decided, restored = run.seen.decided[0], run.restored_from()
    kinds = sorted({type(state).__name__ for state in decided.states.values()})
    sizes = {name: state.size_bytes for name, state in decided.states.items()}
    scene = Scene("In a folder: it survives every process")
    scene.ran = f"the same job, checkpoints in a folder, {CRASH}"
    scene.steps = timeline(run, *RECOVERY, until=run.crash_ms + 12)
    scene.fact(
        f"what the coordinator keeps of checkpoint {decided.checkpoint_id}: {', '.join(kinds)} only, for "
        f"{sum(sizes.values())} bytes of states",
        sizes,
    )
    scene.fact(f"in the end the folder holds {', '.join(left)}", left)
    scene.check("the coordinator keeps references only", ["Reference"], kinds)
    scene.check("the decision is a file of its own", True, any(name.endswith("/decision.json") for name in left))
    scene.check("restored from checkpoint 2", [2], restored)
    scene.check(
        "no row is lost or repeated, and the counts are right",
        ([], [], run.right_counts),
        (*run.lost_and_repeated, run.counts),
    )
    return scene.finish(f"generation 2 is restored from checkpoint {restored}; counts {counts_named(run.counts)}")


def _objects() -> Scene:
    """An object store cannot rename: objects are immutable, and a decision is one more object."""
    with scratch_folder() as folder:
        url = f"file://{folder}/objects"
        storage = ObjectCheckpointStorage(open_objects(url), say=lambda text: None)
        run = run_job(plan=COUNTING, storage=storage, schedule=CRASH)
        lines = listing(folder, pattern="objects/log/*")
        ObjectCheckpointStorage(open_objects(url)).claim_generation()
        later = run.seen.decided[-1]._replace(checkpoint_id=99)
        fenced = refusal(Fenced, lambda: storage.decide(later)).replace(str(folder), "FOLDER")
    restored, complete = run.restored_from(), len(run.of("complete"))
    scene = Scene("At any URL: immutable objects, and a log of decisions")
    scene.ran = f"the same job, checkpoints in an object store, {CRASH}; then another coordinator claims a generation"
    scene.fact(f"entries of the log: {len(lines)}, for {run.generations} generations and {complete} decisions", lines)
    scene.fact(f"a later decision of the superseded coordinator: {fenced or 'is accepted'}", fenced)
    scene.check("one log entry for each decision and each generation", run.generations + complete, len(lines))
    scene.check("restored from checkpoint 2", [2], restored)
    scene.check_each_row_once(run)
    scene.check("the superseded coordinator is fenced", True, bool(fenced))
    return scene.finish(f"generation 2 is restored from checkpoint {restored}; counts {counts_named(run.counts)}")


def _damaged() -> Scene:
    """A byte of the newest checkpoint changes on disk before the restore."""
    said: list[str] = []
    with scratch_folder() as folder:
        storage = FolderCheckpointStorage(folder, retained=2, say=said.append)
        run_job(plan=COUNTING, storage=storage)
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
    scene = Scene("One byte changes on disk")
    scene.ran = (
        f"two checkpoints retained ({[older, newer]}); the last byte of a state of the newer one is flipped, then "
        "restored"
    )
    scene.fact(f"the message: {text}", text)
    scene.check("the damaged one is refused, the one before it used", older, used)
    scene.check("one message says so", 1, len(said))
    scene.check("the damaged one is kept for inspection", [f"damaged-{newer}"], aside)
    return scene.finish(
        f"checkpoint {used or 'none'} is used instead of {newer}; the damaged one is set aside as {', '.join(aside)}"
    )
