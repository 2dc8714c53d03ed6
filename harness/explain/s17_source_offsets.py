"""S17: what decides where a source resumes, on a small simulation of a Kafka broker (simulated_broker.py)."""

from __future__ import annotations

from typing import Final

from sinkproof.execution.recorded_job import Identity
from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.models.simulated_broker import Broker
from sinkproof.explain.small_jobs import LETTERS, MemoryTarget, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered
from sinkproof.sink_adapters.protocol import Context

LESSON: Final = (
    "with checkpoints the offsets are part of the state, and the group's offsets are a copy for monitoring, which may "
    "be reset to any value. Without checkpoints the client's auto-commit decides, and it does not know which rows were "
    "processed."
)
GROUP: Final = "job"
SIMULATED: Final = "a small simulation of a Kafka broker's consumer groups"
CRASH: Final = "checkpoint.notify#3=kill-job"
POLLED: Final = 2  # rows


class CommittingOffsets(MemoryCheckpointStorage):
    """Commits the offsets of a complete checkpoint to the consumer group, if configured to."""

    def __init__(self, broker: Broker, *, commit_offsets_on_checkpoints: bool) -> None:
        super().__init__()
        self.broker, self.commits = broker, commit_offsets_on_checkpoints

    def decide(self, record: CheckpointRecord) -> None:
        super().decide(record)
        if self.commits:
            self.broker.commit_offsets(GROUP, covered(record))


def scenes() -> tuple[Scene, ...]:
    return (
        _with_checkpoints(commits=True),
        _with_checkpoints(commits=False),
        _without_checkpoints("before", "Checkpointing off, auto-commit before the rows are processed: rows are lost"),
        _without_checkpoints("after", "Checkpointing off, auto-commit some time later: rows are repeated"),
    )


def _with_checkpoints(*, commits: bool) -> Scene:
    """Between crash and restore the group's offsets are reset to the beginning of the topic."""
    broker, beginning = Broker(), {0: 0, 1: 0}
    storage = CommittingOffsets(broker, commit_offsets_on_checkpoints=commits)

    def reset() -> tuple[dict[int, int], dict[int, int]]:
        before = broker.group_offsets.get(GROUP, {})
        broker.commit_offsets(GROUP, beginning)
        return before, broker.group_offsets[GROUP]

    run = run_job(probe=reset, storage=storage, schedule=CRASH)
    before, after = run.seen.probed_at_fault[0]
    last = max(run.complete_at_crash)
    offsets, again = run.offsets(last), run.rows_read(generation=2)
    first = {split: min(row[1] for row in again if row[0] == split) for split in offsets}
    end = broker.group_offsets[GROUP]
    scene = Scene(
        "Checkpointing on: offsets live in the checkpoint"
        if commits
        else "The same with commit_offsets_on_checkpoints=False"
    )
    scene.ran = (
        f"2 sources -> two-phase sink x2, offsets committed to {SIMULATED} on completion: {commits}; {CRASH}; then "
        "the group's offsets are reset to 0"
    )
    scene.steps = timeline(run, *RECOVERY, "sends", actors=("coordinator", "source"), around_crash=(9, 12))
    scene.fact(f"the group's offsets before the reset: {before or 'none'}, after it: {after}", [before, after])
    scene.fact(f"offsets in checkpoint {last}: {offsets}; the sources resume at {first}", [offsets, first])
    scene.check("committed on completion" if commits else "never committed", offsets if commits else {}, before)
    scene.check("recovery resumes at the offsets in the checkpoint", offsets, first)
    scene.check_each_row_once(run)
    scene.check(
        "the offsets that monitoring reads in the end",
        covered(run.simulation.storage.latest()) if commits else beginning,
        end,
    )
    return scene.finish(f"{len(run.visible)} rows are delivered, each once; the group's offsets in the end: {end}")


def _without_checkpoints(when: str, title: str) -> Scene:
    """A polling client without a job; it crashes in its second poll, when one row is written."""
    broker, target = Broker(), MemoryTarget(strategy="plain")
    first, second = (_consume(broker, target, generation=generation, commit=when) for generation in (1, 2))
    visible = target.read()
    lost = [(0, at) for at in range(LETTERS.length(0)) if (0, at) not in visible]
    repeated = sorted({row for row in visible if visible.count(row) > 1})
    scene = Scene(title)
    scene.ran = (
        f"a client of {SIMULATED} that polls {POLLED} rows at a time and writes them to a plain sink; it crashes "
        "in its second poll, and another client resumes at the group's offset"
    )
    scene.fact(f"the first wrote {rows_named(first)}", first)
    scene.fact(f"the second wrote {rows_named(second)}", second)
    scene.check("rows are lost" if when == "before" else "no row is lost", when == "before", bool(lost))
    scene.check("rows are repeated" if when == "after" else "no row is repeated", when == "after", bool(repeated))
    return scene.finish(f"lost: {rows_named(lost)}; repeated: {rows_named(repeated)}")


def _consume(broker: Broker, target: MemoryTarget, *, generation: int, commit: str) -> list[Identity]:
    """Partition 0 from the group's offset on. `commit`: before a poll's rows are processed, or after all of them."""
    sink = target.sink()
    sink.open(Context(generation=generation))
    written: list[Identity] = []
    at = broker.group_offsets.get(GROUP, {}).get(0, 0)
    for poll, offset in enumerate(range(at, LETTERS.length(0), POLLED), start=1):
        if commit == "before":
            broker.commit_offsets(GROUP, {0: offset + POLLED})
        for number in range(offset, offset + POLLED):
            batch = LETTERS.batch(0, number)
            sink.write(batch)
            written += [row[:2] for row in batch]
            if (generation, poll, number) == (1, 2, offset):
                return written  # the crash
        if commit == "after":
            broker.commit_offsets(GROUP, {0: offset + POLLED})
    return written
