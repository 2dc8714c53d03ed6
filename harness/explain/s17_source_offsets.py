"""S17: on a small simulation of a Kafka broker (simulated_broker.py): who decides where a source goes on."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.execution.recorded_job import Identity, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.models.simulated_broker import Broker
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.memory.memory_clients import MemoryLog
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Context
from sinkproof.sink_adapters.strategies.plain import PlainSink

LESSON: Final = (
    "with checkpoints the offsets are part of the state, and the group's are a copy for people's dashboards: put them "
    "anywhere you like. Without checkpoints the client's auto-commit decides, and it knows nothing of what was "
    "processed."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
GROUP: Final = "job"
SIMULATED: Final = "a small simulation of a Kafka broker's consumer groups"
CRASH: Final = "checkpoint.notify#3=kill-job"


class CommittingOffsets(MemoryCheckpointStorage):
    """The source's client commits the offsets of a complete checkpoint to its group, if it is told to."""

    def __init__(self, broker: Broker, *, commit_offsets_on_checkpoints: bool) -> None:
        super().__init__()
        self.broker, self.commits = broker, commit_offsets_on_checkpoints
        self.committed: list[dict[int, int]] = []

    def decide(self, record: CheckpointRecord) -> None:
        super().decide(record)
        if self.commits:
            self.broker.commit_offsets(GROUP, covered(record))
            self.committed.append(self.broker.group_offsets[GROUP])


def scenes() -> tuple[Scene, ...]:
    return (
        _with_checkpoints(commits=True),
        _with_checkpoints(commits=False),
        _without_checkpoints("before", "Checkpointing off, auto-commit before the rows are processed: rows are lost"),
        _without_checkpoints("after", "Checkpointing off, auto-commit some time later: rows are repeated"),
    )


def _with_checkpoints(*, commits: bool) -> Scene:
    """Between crash and restore somebody resets the group's offsets to where the topic begins."""
    broker, target = Broker(), Transactional()
    storage = CommittingOffsets(broker, commit_offsets_on_checkpoints=commits)
    reset: list[dict[int, int]] = []

    def somebody_resets() -> dict[int, int]:
        reset.append(broker.group_offsets.get(GROUP, {}))
        broker.commit_offsets(GROUP, {0: 0, 1: 0})
        return broker.group_offsets[GROUP]

    plan = source_to_sink(SOURCE).plan()
    run = play(plan, target.sink, read=target.read, look=somebody_resets, storage=storage, schedule=CRASH)
    crash = run.of("fault")[0].at_ms
    last = max(each.detail for each in run.of("complete") if each.at_ms <= crash)
    offsets = covered(next(one for one in run.stage.decided if one.checkpoint_id == last))
    again = [row[:2] for each in run.of("sends") if each.generation == 2 for row in each.detail[1]]
    first = {split: min(row[1] for row in again if row[0] == split) for split in offsets}
    end = broker.group_offsets[GROUP]
    return Scene(
        title="Checkpointing on: offsets live in the checkpoint"
        if commits
        else "The same with commit_offsets_on_checkpoints=False",
        ran=f"2 sources -> two-phase sink x2, offsets committed to {SIMULATED} on completion: {commits}; {CRASH}; then "
        "the group's offsets are reset to 0",
        steps=run.steps(
            "complete",
            "generation",
            "restored",
            "sends",
            actors=("coordinator", "source"),
            since=crash - 9,
            until=crash + 12,
        ),
        facts=(
            fact(
                f"the group's offsets before the reset: {reset[0] or 'none'}, after it: "
                f"{run.stage.looked_when_struck[0]}",
                [reset[0], run.stage.looked_when_struck[0]],
            ),
            fact(f"offsets in checkpoint {last}: {offsets}; the sources go on at {first}", [offsets, first]),
        ),
        outcome=f"{len(run.visible)} rows are delivered, each once; the group's offsets in the end: {end}",
        checks=(
            check("committed on completion" if commits else "never committed", offsets if commits else {}, reset[0]),
            check("recovery goes on where the checkpoint says", offsets, first),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
            check(
                "what monitoring sees in the end",
                covered(run.simulation.storage.latest()) if commits else {0: 0, 1: 0},
                end,
            ),
        ),
    )


def _without_checkpoints(when: str, title: str) -> Scene:
    """A client that polls two rows at a time, by hand; it dies in its second poll, when one row is written."""
    broker, store = Broker(), MemoryStore()
    written: list[list[Identity]] = []
    for generation in (1, 2):
        written.append(_consume(broker, store, generation=generation, commit=when))
    lost, extra = (
        [row for row in _of_split(0) if row not in store.read()],
        sorted({row for row in store.read() if store.read().count(row) > 1}),
    )
    return Scene(
        title=title,
        ran=f"a client of {SIMULATED} that polls 2 rows at a time and writes them to a plain sink; it dies in its "
        "second poll, and another takes over at the group's offset",
        facts=(
            fact(f"the first wrote {rows_named(written[0])}", written[0]),
            fact(f"the second wrote {rows_named(written[1])}", written[1]),
        ),
        outcome=f"lost: {rows_named(lost)}; repeated: {rows_named(extra)}",
        checks=(
            check("rows are lost" if when == "before" else "none is lost", when == "before", bool(lost)),
            check("rows are repeated" if when == "after" else "none is repeated", when == "after", bool(extra)),
        ),
    )


def _of_split(split: int) -> list[Identity]:
    return [(split, at) for at in range(SOURCE.length(split))]


def _consume(broker: Broker, store: MemoryStore, *, generation: int, commit: str) -> list[Identity]:
    """Partition 0 from the group's offset on. `commit`: before a poll's rows are processed, or when they all are."""
    sink: Any = PlainSink(MemoryLog(store))
    sink.open(Context(generation=generation))
    written: list[Identity] = []
    at = broker.group_offsets.get(GROUP, {}).get(0, 0)
    for poll, offset in enumerate(range(at, SOURCE.length(0), 2), start=1):
        if commit == "before":
            broker.commit_offsets(GROUP, {0: offset + 2})
        for number in (offset, offset + 1):
            batch = SOURCE.batch(0, number)
            sink.write(batch)
            written += [row[:2] for row in batch]
            if (generation, poll, number) == (1, 2, offset):
                return written  # here it dies
        if commit == "after":
            broker.commit_offsets(GROUP, {0: offset + 2})
    return written
