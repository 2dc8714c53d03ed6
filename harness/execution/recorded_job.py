"""Runs one small job in the simulated shell, in virtual time, and records each of its events.

The demonstrations of `explain` and the comparison table read their figures from such a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Fault, parse
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import (
    FIRST_GENERATION,
    CheckpointStorage,
    MemoryCheckpointStorage,
)
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay, RestartStrategy
from sinkproof.reference_engine.dataflow.flow_control import Buffers
from sinkproof.reference_engine.dataflow.job_graph import Plan
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput, Source
from sinkproof.reference_engine.shells.carry_out_effects import Action
from sinkproof.reference_engine.shells.job import Job, RunningJob
from sinkproof.reference_engine.shells.simulated.in_process_host import InProcessHost
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.reference_engine.shells.virtual_timing import Timing
from sinkproof.sink_adapters.protocol import Row, Sink

Identity = tuple[int, int]
NO_OPTIONS: Final[dict[str, Any]] = {
    "checkpoint_interval": None,
    "checkpoint_every_batches": 2,
    "max_concurrent_checkpoints": 3,
    "tolerable_checkpoint_failure_number": 10,
}
NOTED: Final = {  # notes of the engine that are recorded under their own kind, with their detail
    *("acknowledged", "declined", "complete", "aborted", "raised"),
    *("upload cancelled", "buffered", "stalled", "resumed"),
}
BARRIERS: Final = {"barrier": "", "timed_barrier": "", "urgent": " urgent"}  # message -> suffix of the event's kind
CALLS: Final = {  # point -> the event that it is, with the effect's argument as detail
    "snapshot.after": "snapshot",
    "notify_complete.after": "notified",
    "notify_aborted.before": "abort notified",
}


class RecordedEvent(NamedTuple):
    """`generation` counts from 1. The type of `detail` depends on `kind`: a checkpoint id, rows, (receiver, rows)..."""

    at_ms: float
    actor: str
    generation: int
    kind: str
    detail: Any


class RecordingSimulation(Simulation):
    """Records messages posted, notes of the engine, effects of the actors, and the points that they reach."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.recorded: list[RecordedEvent] = []
        self._argument: dict[int, Any] = {}  # actor -> argument of its latest effect
        super().__init__(*arguments, **options)
        self.actions = {name: self._recording(name, action) for name, action in self.actions.items()}
        self.on_point = lambda _, point: self._reached(point)

    def record(self, kind: str, detail: Any, *, actor: str | None = None, at_ms: float | None = None) -> None:
        name = self.names[self.actor[0]] if actor is None else actor
        at = self.now if at_ms is None else at_ms
        self.recorded.append(RecordedEvent(at, name, self.generation - FIRST_GENERATION + 1, kind, detail))

    def note(self, actor: str, what: str, detail: Any) -> None:
        super().note(actor, what, detail)
        if detail in KINDS:
            self.record("fault", (what, detail), actor=actor)
        elif what == "generation":
            self.record("generation", self.generation - FIRST_GENERATION + 1, actor=actor)
        elif what in NOTED:
            self.record(what, detail, actor=actor)

    def post(self, delay: float, key: tuple[int, int], event: tuple[str, Any, Any]) -> None:
        """A trigger or an abort is posted to several subtasks: it is recorded once."""
        super().post(delay, key, event)
        kind, checkpoint_id, _ = event
        if key[0] != 0 and kind in ("trigger", "aborted"):
            latest = next((each.detail for each in reversed(self.recorded) if each.kind == kind), None)
            if latest != checkpoint_id:
                self.record(kind, checkpoint_id, actor="coordinator")

    def _recording(self, name: str, action: Action) -> Action:
        def act(shell: Any, key: tuple[int, int], effect: tuple[Any, ...]) -> None:
            self._argument[key[0]] = effect[1] if len(effect) > 1 else None
            if name == "send":
                self._sent(key, effect)
            elif name == "drain":
                held = [row for kind, _, payload in effect[1] if kind == "rows" for row in payload.rows]
                self.record("drains", held) if held else None
            elif name == "upload" and key not in self.sinks:  # a sink's snapshot is a point of its own
                self.record("snapshot", effect[1])
            elif name == "open":
                self.record("restored", self.restored[key].checkpoint_id)
            action(shell, key, effect)

        return act

    def _sent(self, key: tuple[int, int], effect: tuple[Any, ...]) -> None:
        _, to, kind, payload = effect
        if kind == "rows":
            self.record("sends", (self.names[to], payload.rows))
        elif kind == "watermark":
            self.record("watermark", (self.names[to], payload))
        elif kind in BARRIERS:
            checkpoint_id = payload[0] if isinstance(payload, tuple) else payload
            self.record(f"forwards{BARRIERS[kind]}", (self.names[to], checkpoint_id))
            arrives, arrived = self.now + self.latency.channel[key[0], to], (self.names[key[0]], checkpoint_id)
            self.record(f"barrier{BARRIERS[kind]}", arrived, actor=self.names[to], at_ms=arrives)

    def _reached(self, point: str) -> None:
        argument: Any = self._argument.get(self.actor[0])
        if point == "write.after":
            self.record("writes", argument.rows)
        elif point in CALLS:
            self.record(CALLS[point], argument)
        self.record("point", point)


@dataclass
class ReaderLog:
    """A Watcher: the rows that an independent reader saw at each decision, at each fault and in the end."""

    read: Callable[[], Iterable[Identity]]
    probe: Callable[[], Any] = lambda: None  # something else to observe when a fault is injected
    decided: list[CheckpointRecord] = field(default_factory=list)
    visible_when_deciding: dict[int, list[Identity]] = field(default_factory=dict)
    visible_at_fault: list[list[Identity]] = field(default_factory=list)
    probed_at_fault: list[Any] = field(default_factory=list)
    visible: list[Identity] = field(default_factory=list)  # in the end

    def deciding(self, job: RunningJob, record: CheckpointRecord) -> None:
        self.decided.append(record)
        self.visible_when_deciding[record.checkpoint_id] = list(self.read())

    def deploying(self, job: RunningJob) -> None:
        """Not recorded."""

    def injecting(self, job: RunningJob, fault: Fault) -> None:
        self.visible_at_fault.append(list(self.read()))
        self.probed_at_fault.append(self.probe())

    def resuming(self, job: RunningJob, actor: str) -> None:
        """Not recorded."""

    def resumed(self, job: RunningJob, actor: str) -> None:
        """Not recorded."""

    def ended(self, job: RunningJob) -> None:
        self.visible = list(self.read())


@dataclass(frozen=True)
class RecordedRun:
    """The events of one job, and what a reader saw of its output."""

    simulation: RecordingSimulation
    seen: ReaderLog
    schedule: str
    source: Source

    @property
    def visible(self) -> list[Identity]:
        """The rows that an independent reader saw in the end."""
        return self.seen.visible

    @property
    def repeated(self) -> list[Identity]:
        """Rows that are visible more than once in the end."""
        return sorted(row for row, count in Counter(self.visible).items() if count > 1)

    @property
    def lost_and_repeated(self) -> tuple[list[Identity], list[Identity]]:
        assert isinstance(self.source, GeneratedInput)
        return once_each(self.source, self.visible)

    @property
    def events(self) -> list[RecordedEvent]:
        """By time; simultaneous events in the order of their recording."""
        return sorted(self.simulation.recorded, key=lambda each: each.at_ms)

    def of(
        self, *kinds: str, actor: str = "", checkpoint_id: int | None = None, generation: int = 0, until: float = 1e9
    ) -> list[RecordedEvent]:
        """`actor`: the beginning of its name. `checkpoint_id`: only events with this detail."""
        return [
            each
            for each in self.events
            if each.kind in kinds
            and each.actor.startswith(actor)
            and checkpoint_id in (None, each.detail)
            and generation in (0, each.generation)
            and each.at_ms <= until
        ]

    def points(self, *points: str, actor: str = "", generation: int = 0) -> list[RecordedEvent]:
        return [each for each in self.of("point", actor=actor, generation=generation) if each.detail in points]

    def actors(self, kind: str, *, checkpoint_id: int, generation: int = 0, until: float = 1e9) -> list[str]:
        """Names of the actors with such an event, sorted; an actor with two of them twice."""
        events = self.of(kind, checkpoint_id=checkpoint_id, generation=generation, until=until)
        return sorted(each.actor for each in events)

    @property
    def generations(self) -> int:
        return len(self.of("generation"))

    @property
    def crash_ms(self) -> float:
        """When the first fault was injected."""
        return self.of("fault")[0].at_ms

    @property
    def complete_at_crash(self) -> list[int]:
        return [each.detail for each in self.of("complete", until=self.crash_ms)]

    def restored_from(self) -> list[int]:
        """Checkpoints that the subtasks of the second generation were restored from; 0: from none."""
        return sorted({each.detail or 0 for each in self.of("restored", generation=2)})

    def record(self, checkpoint_id: int) -> CheckpointRecord:
        return next(record for record in self.seen.decided if record.checkpoint_id == checkpoint_id)

    def offsets(self, checkpoint_id: int) -> dict[int, int]:
        """Split -> how many of its rows the checkpoint covers."""
        return dict(sorted(self.simulation.covered(self.record(checkpoint_id)).items()))

    def covered(self, checkpoint_id: int) -> list[Identity]:
        return [(split, at) for split, end in self.offsets(checkpoint_id).items() for at in range(end)]

    def rows_read(self, *, generation: int) -> list[Identity]:
        """Rows that source subtasks sent, in order."""
        sent = self.of("sends", actor="source", generation=generation)
        return [row[:2] for each in sent for row in each.detail[1]]

    def rows_written(self, *, before_snapshot: int = 0, generation: int = 0) -> list[Identity]:
        """Rows written to the sinks; `before_snapshot`: each sink's rows before its snapshot of that checkpoint."""
        rows: list[Identity] = []
        done: set[str] = set()
        for each in self.of("snapshot", "writes", generation=generation):
            if each.kind == "writes":
                rows += [row[:2] for row in each.detail] if each.actor not in done else []
            elif each.detail == before_snapshot:
                done.add(each.actor)
        return rows


def record_job(
    plan: Plan,
    sink: Callable[[], Sink],
    *,
    read: Callable[[], Iterable[Identity]],
    probe: Callable[[], Any] = lambda: None,
    schedule: str = "no-fault",
    storage: CheckpointStorage | None = None,
    restart: Callable[[], RestartStrategy] = lambda: FixedDelay(attempts=10),
    timing: Timing | None = None,
    later: Plan | None = None,
    buffers: Buffers | None = None,
    before: Callable[[RecordingSimulation], object] = lambda simulation: None,
    **options: Any,
) -> RecordedRun:
    """Runs one job to its end. `before`: called with the simulation before it starts; `options`: of checkpoints."""
    if "checkpoint_interval" in options:
        options = {"checkpoint_every_batches": None, **options}
    job = Job(
        plan=plan,
        later=later,
        configuration=CheckpointConfiguration(**{**NO_OPTIONS, **options}),
        buffers=buffers,
        timing=timing or Timing(),
        restart=restart,
    )
    seen = ReaderLog(read, probe)
    simulation = RecordingSimulation(
        *(job, InProcessHost(sink)),
        storage=storage or MemoryCheckpointStorage(),
        watcher=seen,
        schedule=parse(schedule, kinds=frozenset(KINDS)),
    )
    before(simulation)
    simulation.play()
    return RecordedRun(simulation, seen, schedule, next(each.source for each in plan.subtasks if each.source))


def letters(text: str, *, splits: int = 2, batch_rows: int = 1) -> GeneratedInput:
    """An input with these letters as keys: `ab|ba` is split 0 with keys a and b, split 1 with b and a."""
    keys = text.split("|") if "|" in text else [text] * splits
    assert len({len(of) for of in keys}) == 1, "every split has the same number of rows"

    def make(split: int, offset: int) -> Row:
        return Row(split, offset, keys[split][offset], f"v{split}.{offset}", offset * 1000)

    return GeneratedInput(make, splits=len(keys), rows_per_split=len(keys[0]), batch_rows=batch_rows)


def once_each(source: GeneratedInput, visible: Iterable[Identity]) -> tuple[list[Identity], list[Identity]]:
    """(lost rows, repeated rows: each as often as it is repeated)."""
    identities = [(split, offset) for split in range(source.splits) for offset in range(source.length(split))]
    have, want = Counter(visible), Counter(identities)
    return sorted((want - have).elements()), sorted((have - want).elements())
