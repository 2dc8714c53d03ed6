"""Runs one small job under virtual time and writes down everything that happens in it, for people to look at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Fault, parse
from sinkproof.explain.demonstration import Step, row_name
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
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.shells.effects import Action
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


class Happening(NamedTuple):
    """`generation` counts from 1. What `detail` is depends on `what`: see SENTENCES."""

    at_ms: float
    actor: str
    generation: int
    what: str
    detail: Any


POINTS: Final = {
    "begin.after": "begins a transaction",
    "commit.after": "committed",
    "abort.after": "aborted a transaction",
    "publish.after": "has asked the target to send",
    "record.after": "recorded as sent",
    "upsert.after": "upserted",
    "append.after": "appended",
    "stage.after": "staged",
    "reveal.after": "revealed",
    "collect.after": "collected what no marker covers",
    "settle.before": "is asked again",
    "end_of_input.after": "knows that no row follows",
}
SENTENCES: Final[dict[str, Callable[[Any], str]]] = {
    "trigger": lambda checkpoint_id: f"triggers {checkpoint_id}",
    "complete": lambda checkpoint_id: f"{checkpoint_id} is complete",
    "aborted": lambda checkpoint_id: f"aborts {checkpoint_id}",
    "generation": lambda number: f"starts generation {number}",
    "sends": lambda detail: f"{_rows(detail[1])} -> {detail[0]}",
    "forwards": lambda detail: f"barrier {detail[1]} -> {detail[0]}",
    "barrier": lambda detail: f"barrier {detail[1]} from {detail[0]}",
    "forwards urgent": lambda detail: f"urgent barrier {detail[1]} -> {detail[0]}",
    "barrier urgent": lambda detail: f"urgent barrier {detail[1]} from {detail[0]}",
    "writes": lambda rows: f"writes {_rows(rows)}",
    "drains": lambda rows: f"now the held {_rows(rows)}",
    "snapshot": lambda checkpoint_id: f"snapshot {checkpoint_id}",
    "acknowledged": lambda checkpoint_id: f"acknowledges {checkpoint_id}",
    "declined": lambda checkpoint_id: f"declines {checkpoint_id}",
    "told": lambda checkpoint_id: f"told that {checkpoint_id} is complete",
    "told aborted": lambda checkpoint_id: f"told that {checkpoint_id} is aborted",
    "upload cancelled": lambda checkpoint_id: f"gives up persisting {checkpoint_id}",
    "restored": lambda checkpoint_id: f"restored from {checkpoint_id or 'nothing'}",
    "fault": lambda detail: f"{detail[1]} at {detail[0]}",
    "raised": lambda error: f"fails: {error}",
    "watermark": lambda detail: f"watermark {detail[1]:g} -> {detail[0]}",
    "buffered": lambda count: f"holds {count} batches",
    "stalled": lambda _: "stops: its queue is full",
    "resumed": lambda _: "goes on",
    "point": lambda point: POINTS.get(point, point),
}


def _rows(rows: Iterable[Row]) -> str:
    return " ".join(map(_row, rows))


def _row(row: Row) -> str:
    """A row of a source by its identity, the result of a window by its key and window: its identity is a digest."""
    if not row.value.startswith('{"window"'):
        return row_name(row)
    start, end = json.loads(row.value)["window"]
    return f"{row.key} [{start},{end})"


class WatchedSimulation(Simulation):
    """Writes down what is posted and noted, what its actors do, and the points they pass."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.happened: list[Happening] = []
        self._doing: dict[int, Any] = {}  # actor -> what its last effect was about
        super().__init__(*arguments, **options)
        self.actions = {name: self._watched(name, action) for name, action in self.actions.items()}
        self.on_point = lambda _, point: self._passed(point)

    def happen(self, what: str, detail: Any, *, actor: str | None = None, at_ms: float | None = None) -> None:
        name = self.names[self.actor[0]] if actor is None else actor
        at = self.now if at_ms is None else at_ms
        self.happened.append(Happening(at, name, self.generation - FIRST_GENERATION + 1, what, detail))

    def note(self, actor: str, what: str, detail: Any) -> None:
        super().note(actor, what, detail)
        if detail in KINDS:
            self.happen("fault", (what, detail), actor=actor)
        elif what == "generation":
            self.happen("generation", self.generation - FIRST_GENERATION + 1, actor=actor)
        elif what in SENTENCES:
            self.happen(what, detail, actor=actor)

    def post(self, delay: float, key: tuple[int, int], event: tuple[str, Any, Any]) -> None:
        super().post(delay, key, event)
        known = ("trigger", event[1]), ("aborted", event[1])
        for what, checkpoint_id in known:
            last = next((each.detail for each in reversed(self.happened) if each.what == what), None)
            if key[0] != 0 and event[0] == what and last != checkpoint_id:
                self.happen(what, checkpoint_id, actor="coordinator")

    def _watched(self, name: str, action: Action) -> Action:
        def act(shell: Any, key: tuple[int, int], effect: tuple[Any, ...]) -> None:
            self._doing[key[0]] = effect[1] if len(effect) > 1 else None
            if name == "send":
                self._sent(key, effect)
            elif name == "drain":
                held = [row for kind, _, payload in effect[1] if kind == "rows" for row in payload.rows]
                self.happen("drains", held) if held else None
            elif name == "upload" and key not in self.sinks:  # a sink's snapshot is a point of its own
                self.happen("snapshot", effect[1])
            elif name == "open":
                self.happen("restored", self.restored[key].checkpoint_id)
            action(shell, key, effect)

        return act

    def _sent(self, key: tuple[int, int], effect: tuple[Any, ...]) -> None:
        _, to, kind, payload = effect
        arrives = self.now + self.latency.channel[key[0], to]
        if kind == "rows":
            self.happen("sends", (self.names[to], payload.rows))
        elif kind == "watermark":
            self.happen("watermark", (self.names[to], payload))
        elif kind in BARRIERS:
            checkpoint_id = payload[0] if isinstance(payload, tuple) else payload
            self.happen(f"forwards{BARRIERS[kind]}", (self.names[to], checkpoint_id))
            came = (self.names[key[0]], checkpoint_id)
            self.happen(f"barrier{BARRIERS[kind]}", came, actor=self.names[to], at_ms=arrives)

    def _passed(self, point: str) -> None:
        status: Any = self._doing.get(self.actor[0])
        if point == "write.after":
            self.happen("writes", status.rows)
        elif point in DONE:
            self.happen(DONE[point], status)
        self.happen("point", point)


BARRIERS: Final = {"barrier": "", "timed_barrier": "", "urgent": " urgent"}
DONE: Final = {
    "snapshot.after": "snapshot",
    "notify_complete.after": "told",
    "notify_aborted.before": "told aborted",
}


@dataclass
class Stage:
    """A Watcher: what an independent reader saw, at the moments that count."""

    read: Callable[[], Iterable[Identity]]
    look: Callable[[], Any] = lambda: None  # at what else, when a fault strikes
    decided: list[CheckpointRecord] = field(default_factory=list)
    visible_when_deciding: dict[int, list[Identity]] = field(default_factory=dict)
    visible_when_struck: list[list[Identity]] = field(default_factory=list)
    looked_when_struck: list[Any] = field(default_factory=list)
    visible: list[Identity] = field(default_factory=list)  # in the end

    def deciding(self, job: RunningJob, record: CheckpointRecord) -> None:
        self.decided.append(record)
        self.visible_when_deciding[record.checkpoint_id] = list(self.read())

    def injecting(self, job: RunningJob, fault: Fault) -> None:
        self.visible_when_struck.append(list(self.read()))
        self.looked_when_struck.append(self.look())

    def resuming(self, job: RunningJob, actor: str) -> None:
        """Nothing to write down."""

    def resumed(self, job: RunningJob, actor: str) -> None:
        """Nothing to write down."""

    def ended(self, job: RunningJob) -> None:
        self.visible = list(self.read())


@dataclass(frozen=True)
class Run:
    """What came of one job."""

    simulation: WatchedSimulation
    stage: Stage
    schedule: str

    @property
    def visible(self) -> list[Identity]:
        """What an independent reader saw in the end."""
        return self.stage.visible

    @property
    def repeated(self) -> list[Identity]:
        """Rows that are visible more than once in the end."""
        return sorted(row for row, count in Counter(self.visible).items() if count > 1)

    @property
    def happened(self) -> list[Happening]:
        """In order of time; what happened at the same time, in the order in which it did."""
        return sorted(self.simulation.happened, key=lambda each: each.at_ms)

    def of(self, *kinds: str, actor: str = "") -> list[Happening]:
        return [each for each in self.happened if each.what in kinds and each.actor.startswith(actor)]

    @property
    def generations(self) -> int:
        return len(self.of("generation"))

    def rows_written(self, *, before_snapshot: int = 0, generation: int = 0) -> list[Identity]:
        """Rows that sinks were given; `before_snapshot`: of a checkpoint, in each sink; `generation`: only in it."""
        rows: list[Identity] = []
        done: set[str] = set()
        for each in self.happened:
            if each.what == "snapshot" and each.detail == before_snapshot:
                done.add(each.actor)
            elif each.what == "writes" and each.actor not in done and generation in (0, each.generation):
                rows += [row[:2] for row in each.detail]
        return rows

    def points(self, *points: str, actor: str = "") -> list[Happening]:
        return [each for each in self.of("point", actor=actor) if each.detail in points]

    def steps(
        self, *kinds: str, points: Iterable[str] = (), actors: Iterable[str] = (), since: float = 0, until: float = 1e9
    ) -> tuple[Step, ...]:
        """A timeline of these kinds of happenings, and of these points. Faults are always in it."""
        shown = {*kinds, "fault"}
        wanted, who = set(points), tuple(actors)
        return tuple(
            Step(
                at=each.at_ms,
                lane=each.actor,
                what=SENTENCES[each.what](each.detail),
                crash=each.what == "fault",
            )
            for each in self.happened
            if (each.what in shown or (each.what == "point" and each.detail in wanted))
            and since <= each.at_ms <= until
            and (not who or each.actor.startswith(who))
        )


def play(
    plan: Plan,
    sink: Callable[[], Sink],
    *,
    read: Callable[[], Iterable[Identity]],
    look: Callable[[], Any] = lambda: None,
    schedule: str = "no-fault",
    storage: CheckpointStorage | None = None,
    restart: Callable[[], RestartStrategy] = lambda: FixedDelay(attempts=10),
    timing: Timing | None = None,
    later: Plan | None = None,
    buffers: Buffers | None = None,
    before: Callable[[WatchedSimulation], object] = lambda simulation: None,
    **options: Any,
) -> Run:
    """One job to its end. `before`: called with the simulation before it starts; `options`: of checkpoints."""
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
    stage = Stage(read, look)
    simulation = WatchedSimulation(
        *(job, InProcessHost(sink)),
        storage=storage or MemoryCheckpointStorage(),
        watcher=stage,
        schedule=parse(schedule, kinds=frozenset(KINDS)),
    )
    before(simulation)
    simulation.play()
    return Run(simulation, stage, schedule)


def letters(text: str, *, splits: int = 2, batch_rows: int = 1) -> GeneratedInput:
    """An input whose keys are these letters: `ab|ba` is split 0 with keys a and b, split 1 with b and a."""
    keys = text.split("|") if "|" in text else [text] * splits
    assert len({len(of) for of in keys}) == 1, "every split has the same number of rows"

    def make(split: int, offset: int) -> Row:
        return Row(split, offset, keys[split][offset], f"v{split}.{offset}", offset * 1000)

    return GeneratedInput(make, splits=len(keys), rows_per_split=len(keys[0]), batch_rows=batch_rows)


def identities(source: GeneratedInput) -> list[Identity]:
    """Every row of the input once."""
    return [(split, offset) for split in range(source.splits) for offset in range(source.length(split))]


def once_each(source: GeneratedInput, visible: Iterable[Identity]) -> tuple[list[Identity], list[Identity]]:
    """(lost rows, rows more than there should be)."""
    have, want = Counter(visible), Counter(identities(source))
    return sorted((want - have).elements()), sorted((have - want).elements())
