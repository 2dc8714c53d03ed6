"""S07: a checkpoint that is given up, for each of the reasons there are; and what it leaves behind: nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sinkproof.execution.recorded_job import Run, WatchedSimulation, letters, once_each, play
from sinkproof.explain.checkpoint_folders import listing, scratch_folder
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.small_jobs import Transactional, counting
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.reference_engine.dataflow.subtask import Subtask

LESSON: Final = (
    "an aborted checkpoint costs its attempt and nothing else: files are removed, uploads given up, channels go on, "
    "and its rows become visible with the next checkpoint that is complete."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
GIVEN_UP: Final = 2  # the checkpoint that has bad luck in every scene
FILES_OF_IT: Final = f"chk-{GIVEN_UP}/*"
SLOW_MS: Final = 60
CANCELLED_AT_MS: Final = 36


def scenes() -> tuple[Scene, ...]:
    return (
        _aborted(
            "It takes too long (checkpoint_timeout)", slow=True, checkpoint_timeout=25, max_concurrent_checkpoints=1
        ),
        _aborted("A newer one is complete first, and subsumes it", slow=True),
        _aborted("One subtask declines", schedule=f"sink[1].acknowledge.before#{GIVEN_UP}=decline"),
        _cancelled_job(),
        _channels(),
    )


class WatchedFolder(FolderCheckpointStorage):
    """Notes which files the given-up checkpoint had, and which are left when it has been discarded.

    One that is subsumed loses them a moment earlier, when the newer decision is durable.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, say=lambda text: None)
        self.before: list[str] = []
        self.after: list[str] = []
        self.on_store: Callable[[int, str], None] = lambda checkpoint_id, subtask: None

    def store(self, checkpoint_id: int, subtask: str, states: Any) -> Any:
        self.on_store(checkpoint_id, subtask)
        return super().store(checkpoint_id, subtask, states)

    def decide(self, record: CheckpointRecord) -> None:
        self._look()
        super().decide(record)

    def discard(self, checkpoint_id: int) -> None:
        self._look()
        super().discard(checkpoint_id)
        if checkpoint_id == GIVEN_UP:
            self.after = listing(self.folder, pattern=FILES_OF_IT)

    def _look(self) -> None:
        self.before = listing(self.folder, pattern=FILES_OF_IT) or self.before


def _slow_upload(storage: WatchedFolder) -> Callable[[WatchedSimulation], None]:
    """Persisting what sink[1] captured for the checkpoint takes long, for once."""

    def install(simulation: WatchedSimulation) -> None:
        sink = simulation.names.index("sink[1]")
        usual = simulation.latency.upload[sink]

        def on_store(checkpoint_id: int, subtask: str) -> None:
            slow = (checkpoint_id, subtask) == (GIVEN_UP, "sink[1]")
            simulation.latency.upload[sink] = SLOW_MS if slow else usual

        storage.on_store = on_store

    return install


def _aborted(title: str, *, slow: bool = False, schedule: str = "no-fault", **options: Any) -> Scene:
    target = Transactional()
    with scratch_folder() as folder:
        storage = WatchedFolder(folder)
        before = _slow_upload(storage) if slow else lambda simulation: None
        run = play(
            source_to_sink(SOURCE).plan(),
            target.sink,
            read=target.read,
            schedule=schedule,
            storage=storage,
            before=before,
            **options,
        )
        left = listing(folder, pattern="chk-*")
    aborted = next((each.at_ms for each in run.of("aborted") if each.detail == GIVEN_UP), 0.0)
    given_up = sorted(each.actor for each in run.of("upload cancelled") if each.detail == GIVEN_UP)
    following = _completed_after(run, aborted)
    lost, extra = once_each(SOURCE, run.visible)
    told = f", max_concurrent_checkpoints={options.get('max_concurrent_checkpoints', 3)}"
    why = f"persisting checkpoint {GIVEN_UP} of sink[1] takes {SLOW_MS} ms" if slow else schedule
    return Scene(
        title=title,
        ran=f"source x2 -> sink x2, checkpoints in a folder{told}; {why}",
        steps=run.steps(
            *("trigger", "acknowledged", "declined", "complete", "aborted", "told aborted", "upload cancelled"),
            since=_triggered(run) - 1,
            until=aborted + 5,
        ),
        facts=(
            fact(f"files of checkpoint {GIVEN_UP} while it was pending: {len(storage.before)}", storage.before),
            fact(
                f"files of it afterwards: {len(storage.after)}; uploads given up: {', '.join(given_up) or 'none'}",
                {"after": storage.after, "uploads": given_up},
            ),
        ),
        outcome=f"checkpoint {GIVEN_UP} was aborted at {aborted:g} ms; its rows came with checkpoint {following}; "
        f"{len(run.visible)} rows are visible, each once; retained in the folder: {', '.join(left)}",
        checks=(
            check("it never became complete", False, GIVEN_UP in [each.detail for each in run.of("complete")]),
            check("it had files, and has none any more", (True, []), (bool(storage.before), storage.after)),
            check("an upload in progress is given up", ["sink[1]"] if slow else [], given_up),
            check(
                "every sink is told",
                ["sink[0]", "sink[1]"],
                sorted(each.actor for each in run.of("told aborted") if each.detail == GIVEN_UP),
            ),
            check("without a restart nothing is lost or repeated", (1, [], []), (run.generations, lost, extra)),
        ),
    )


def _triggered(run: Run) -> float:
    return next(each.at_ms for each in run.of("trigger") if each.detail == GIVEN_UP)


def _completed_after(run: Run, at_ms: float) -> int:
    return next((int(each.detail) for each in run.of("complete") if each.at_ms >= at_ms), 0)


def _cancelled_job() -> Scene:
    """Its pending checkpoints can never be restored; what is complete is retained."""
    target = Transactional()
    with scratch_folder() as folder:
        storage = WatchedFolder(folder)
        run = play(
            source_to_sink(SOURCE).plan(),
            target.sink,
            read=target.read,
            storage=storage,
            before=lambda simulation: simulation.post(CANCELLED_AT_MS, (0, FIRST_GENERATION), ("cancel", None, None)),
        )
        left, restorable = listing(folder, pattern="chk-*"), storage.complete()
        covered = run.simulation.covered(storage.latest())
        storage.claim_generation()
        left_later = listing(folder, pattern="chk-*")
    complete = [each.detail for each in run.of("complete")]
    pending = [each.detail for each in run.of("trigger") if each.detail not in complete]
    return Scene(
        title="The job is cancelled",
        ran=f"the same job, cancelled at {CANCELLED_AT_MS} ms",
        steps=run.steps("trigger", "acknowledged", "complete", "told"),
        facts=(
            fact(f"triggered and not complete: {pending}", pending),
            fact(
                f"in the folder afterwards: {', '.join(left)} (what a subtask stored while the cancellation was on its "
                f"way has no decision); once another generation has begun: {', '.join(left_later)}",
                [left, left_later],
            ),
        ),
        outcome=f"checkpoints {complete} were complete: {rows_named(run.visible)} stay visible, and nothing else ever "
        "is",
        checks=(
            check("a checkpoint was pending", True, bool(pending)),
            check("only the complete one can be restored", complete[-1:], restorable),
            check("and only its files stay", [f"chk-{one}" for one in complete[-1:]], left_later),
            check(
                "visible is what it covers",
                sorted((split, at) for split, end in covered.items() for at in range(end)),
                sorted(run.visible),
            ),
        ),
    )


def _channels() -> Scene:
    """The engine's subtask, by hand: blocked channels go on at once."""
    plan = next(plan for plan in counting(SOURCE).plan(chaining=False).subtasks if plan.vertex == "count")
    subtask = Subtask(plan)
    subtask.on("barrier", 1, GIVEN_UP)
    subtask.on("rows", 1, SOURCE.batch(0, 0))
    blocked = sorted(subtask.alignment.blocked)
    effects = subtask.on("aborted", GIVEN_UP, None)
    released = [row for effect in effects if effect[0] == "drain" for held in effect[1] for row in held[2].rows]
    late = subtask.on("barrier", 2, GIVEN_UP)
    return Scene(
        title="A blocked channel goes on at once",
        ran=f"a count with channels 1 and 2: barrier {GIVEN_UP} and a row on channel 1, then the abort, then a late "
        "barrier",
        facts=(fact(f"blocked before the abort: channels {blocked}", blocked),),
        outcome=f"the abort releases {rows_named(released)}; the late barrier on channel 2 leads to "
        f"{list(late) or 'nothing'}",
        checks=(
            check("channel 1 was blocked", [1], blocked),
            check("its row is released", [(0, 0)], [row[:2] for row in released]),
            check("nothing is blocked any more", [], sorted(subtask.alignment.blocked)),
            check("no snapshot follows", [], list(late)),
        ),
    )
