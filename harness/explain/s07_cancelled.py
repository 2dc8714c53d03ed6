"""S07: a checkpoint is cancelled, for each of the possible reasons, and everything it held is released."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import COUNTED, counting, listing, requested_at, run_job, scratch_folder, slow_upload
from sinkproof.explain.timeline import timeline
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.dataflow.subtask import Subtask

LESSON: Final = (
    "an aborted checkpoint costs its attempt and nothing else: files are removed, uploads cancelled, channels "
    "unblocked, and its rows become visible with the next complete checkpoint."
)
CANCELLED: Final = 2  # the checkpoint that is aborted in every scene
ITS_FILES: Final = f"chk-{CANCELLED}/*"
SLOW_MS: Final = 60
CANCELLED_AT_MS: Final = 36


def scenes() -> tuple[Scene, ...]:
    return (
        _aborted(
            "It takes too long (checkpoint_timeout)", slow=True, checkpoint_timeout=25, max_concurrent_checkpoints=1
        ),
        _aborted("A newer checkpoint is complete first and subsumes it", slow=True),
        _aborted("One subtask declines it", schedule=f"sink[1].acknowledge.before#{CANCELLED}=decline"),
        _cancelled_job(),
        _channels(),
    )


class ObservedFolder(FolderCheckpointStorage):
    """Lists the files of the cancelled checkpoint while it is pending, and those left after it was discarded.

    A subsumed checkpoint loses its files a moment earlier, when the newer decision is durable.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, say=lambda text: None)
        self.before: list[str] = []
        self.after: list[str] = []

    def decide(self, record: CheckpointRecord) -> None:
        self._list()
        super().decide(record)

    def discard(self, checkpoint_id: int) -> None:
        self._list()
        super().discard(checkpoint_id)
        if checkpoint_id == CANCELLED:
            self.after = listing(self.folder, pattern=ITS_FILES)

    def _list(self) -> None:
        self.before = listing(self.folder, pattern=ITS_FILES) or self.before


def _aborted(title: str, *, slow: bool = False, schedule: str = "no-fault", **options: Any) -> Scene:
    if slow:
        options["before"] = slow_upload("sink[1]", SLOW_MS, checkpoint_id=CANCELLED)
    with scratch_folder() as folder:
        storage = ObservedFolder(folder)
        run = run_job(schedule=schedule, storage=storage, **options)
        left = listing(folder, pattern="chk-*")
    aborted = next((each.at_ms for each in run.of("aborted", checkpoint_id=CANCELLED)), 0.0)
    uploads = run.actors("upload cancelled", checkpoint_id=CANCELLED)
    following = min((each.detail for each in run.of("complete") if each.detail > CANCELLED), default=0)
    why = f"persisting checkpoint {CANCELLED} of sink[1] takes {SLOW_MS} ms" if slow else schedule
    kinds = "trigger", "acknowledged", "declined", "complete", "aborted", "abort notified", "upload cancelled"
    scene = Scene(title)
    scene.ran = (
        "source x2 -> sink x2, checkpoints in a folder, "
        f"max_concurrent_checkpoints={options.get('max_concurrent_checkpoints', 3)}; {why}"
    )
    scene.steps = timeline(
        run, *kinds, since=run.of("trigger", checkpoint_id=CANCELLED)[0].at_ms - 1, until=aborted + 5
    )
    scene.fact(f"files of checkpoint {CANCELLED} while it was pending: {len(storage.before)}", storage.before)
    scene.fact(
        f"files of it afterwards: {len(storage.after)}; uploads cancelled: {', '.join(uploads) or 'none'}",
        {"after": storage.after, "uploads": uploads},
    )
    scene.check("it never became complete", False, bool(run.of("complete", checkpoint_id=CANCELLED)))
    scene.check("it had files, and has none afterwards", (True, []), (bool(storage.before), storage.after))
    what = "the upload in progress is cancelled" if slow else "no upload was in progress"
    scene.check(what, ["sink[1]"] if slow else [], uploads)
    scene.check(
        "every sink is notified of the abort",
        ["sink[0]", "sink[1]"],
        run.actors("abort notified", checkpoint_id=CANCELLED),
    )
    scene.check("without a restart no row is lost or repeated", (1, [], []), (run.generations, *run.lost_and_repeated))
    return scene.finish(
        f"checkpoint {CANCELLED} was aborted at {aborted:g} ms; checkpoint {following} covers its rows; "
        f"{len(run.visible)} rows are visible, each once; retained in the folder: {', '.join(left)}"
    )


def _cancelled_job() -> Scene:
    """Pending checkpoints of a cancelled job can never be restored; the complete one is retained."""
    with scratch_folder() as folder:
        storage = ObservedFolder(folder)
        run = run_job(storage=storage, before=requested_at(CANCELLED_AT_MS, "cancel"))
        left, restorable = listing(folder, pattern="chk-*"), storage.complete()
        latest = storage.latest()
        storage.claim_generation()
        left_later = listing(folder, pattern="chk-*")
    complete = [each.detail for each in run.of("complete")]
    pending = [each.detail for each in run.of("trigger") if each.detail not in complete]
    covered = run.simulation.covered(latest)
    scene = Scene("The job is cancelled")
    scene.ran = f"the same job, cancelled at {CANCELLED_AT_MS} ms"
    scene.steps = timeline(run, "trigger", "acknowledged", "complete", "notified")
    scene.fact(f"triggered and not complete: {pending}", pending)
    scene.fact(
        f"in the folder afterwards: {', '.join(left)} (states stored while the cancellation was on its way "
        f"have no decision); once another generation has begun: {', '.join(left_later)}",
        [left, left_later],
    )
    scene.check("a checkpoint was pending", True, bool(pending))
    scene.check("only the complete one can be restored", complete[-1:], restorable)
    scene.check("only its files stay", [f"chk-{one}" for one in complete[-1:]], left_later)
    scene.check(
        "the visible rows are those that it covers",
        sorted((split, at) for split, end in covered.items() for at in range(end)),
        sorted(run.visible),
    )
    return scene.finish(
        f"checkpoints {complete} were complete: {rows_named(run.visible)} stay visible, and no other row ever "
        "becomes visible"
    )


def _channels() -> Scene:
    """The engine's subtask, driven event by event: an abort unblocks its channels at once."""
    subtask = Subtask(next(one for one in counting(COUNTED).plan(chaining=False).subtasks if one.vertex == "count"))
    subtask.on("barrier", 1, CANCELLED)
    subtask.on("rows", 1, COUNTED.batch(0, 0))
    blocked = sorted(subtask.alignment.blocked)
    effects = subtask.on("aborted", CANCELLED, None)
    released = [row for effect in effects if effect[0] == "drain" for held in effect[1] for row in held[2].rows]
    late = list(subtask.on("barrier", 2, CANCELLED))
    scene = Scene("A blocked channel is unblocked at once")
    scene.ran = (
        f"a count with channels 1 and 2: barrier {CANCELLED} and a row on channel 1, then the abort, then a late "
        "barrier"
    )
    scene.fact(f"blocked before the abort: channels {blocked}", blocked)
    scene.check("channel 1 was blocked", [1], blocked)
    scene.check("its row is released", [(0, 0)], [row[:2] for row in released])
    scene.check("no channel is blocked any more", [], sorted(subtask.alignment.blocked))
    scene.check("no snapshot follows", [], late)
    return scene.finish(
        f"the abort releases {rows_named(released)}; the late barrier on channel 2 has the effects: {late or 'none'}"
    )
