"""The engine's toolbox: a small two-phase sink over a target in memory, and jobs that are run under virtual time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.checkpoint_encoding_and_digests import digest_of
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay, NoRestart
from sinkproof.reference_engine.dataflow.job_graph import Exchange, JobGraph, Plan, source_to_sink
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.shells.simulated.in_process_host import InProcessHost
from sinkproof.reference_engine.shells.simulated.simulation import Job, Simulation
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from tests.support.object_stores import S3Server, s3_server

FIRST_GENERATION = 700_001
KEYS = ("ada", "bob", "cyd", "red")  # two for each of two sinks, and at least one for each of three
RowId = tuple[int, int]


@dataclass
class Target:
    """The outside world: what readers see, what is pre-committed, and every call that the sinks got."""

    visible: list[Row] = field(default_factory=list)
    staged: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    calls: list[tuple[str, int, Any]] = field(default_factory=list)  # (call, subtask, what with)

    @property
    def counts(self) -> Counter[RowId]:
        return Counter((row.split, row.offset) for row in self.visible)

    def calls_of(self, name: str) -> list[tuple[int, Any]]:
        return [(subtask, argument) for call, subtask, argument in self.calls if call == name]


class StagingSink:
    """A correct two-phase sink; its mischievous relatives inherit from it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.buffer: list[Row] = []
        self.pending: dict[int, str] = {}

    def open(self, context: Context) -> None:
        self.context = context
        self.record(
            "open", (context.generation, context.checkpoint_id_restored, tuple(old for old, _ in context.restored))
        )
        for _, state in context.restored:
            for name in json.loads(state):
                self.reveal(name)
        mine = [old for old in {*context.subtasks_restored, context.subtask} if self.owner_of(old) == context.subtask]
        for name in list(self.target.staged):
            generation, subtask, _ = map(int, name.split("/"))
            if subtask in mine and generation < context.generation:  # a zombie leaves its successor's alone
                del self.target.staged[name]

    def owner_of(self, old: int) -> int:
        return old % self.context.parallelism

    def write(self, batch: Batch) -> None:
        self.record("write", batch.rows)
        self.buffer += batch.rows

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.record("snapshot", checkpoint_id)
        name = f"{self.context.generation}/{self.context.subtask}/{checkpoint_id}"
        self.target.staged[name], self.buffer = tuple(self.buffer), []
        self.pending[checkpoint_id] = name
        return json.dumps(list(self.pending.values())).encode()

    def notify_complete(self, checkpoint_id: int) -> Any:
        self.record("notify_complete", checkpoint_id)
        for covered in [pending for pending in sorted(self.pending) if pending <= checkpoint_id]:
            self.reveal(self.pending.pop(covered))

    def notify_aborted(self, checkpoint_id: int) -> None:
        self.record("notify_aborted", checkpoint_id)

    def end_of_input(self) -> None:
        self.record("end_of_input", None)

    def close(self) -> None:
        self.record("close", None)

    def reveal(self, name: str) -> None:
        self.context.reach("commit.before")
        self.target.visible += self.target.staged.pop(name, ())
        self.context.reach("commit.after")

    def record(self, call: str, argument: Any) -> None:
        subtask = self.context.subtask if hasattr(self, "context") else -1  # -1: was never opened
        self.target.calls.append((call, subtask, argument))


class Witness:
    """Writes down what the watcher of a simulation is shown, at the moment when it is shown."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.decided: list[CheckpointRecord] = []
        self.visible_at_decision: dict[int, Counter[RowId]] = {}
        self.visible_at_end: list[Row] = []
        self.resumed_actors: list[str] = []

    def deciding(self, simulation: Simulation, record: CheckpointRecord) -> None:
        self.decided.append(record)
        self.visible_at_decision[record.checkpoint_id] = self.target.counts

    def deploying(self, simulation: Simulation) -> None:
        """Nothing to write down."""

    def injecting(self, simulation: Simulation, fault: Any) -> None:
        """Nothing to write down."""

    def resuming(self, simulation: Simulation, actor: str) -> None:
        self.resumed_actors.append(actor)

    def resumed(self, simulation: Simulation, actor: str) -> None:
        """Nothing to write down."""

    def ended(self, simulation: Simulation) -> None:
        self.visible_at_end = list(self.target.visible)


@dataclass
class Run:
    simulation: Simulation
    target: Target
    witness: Witness

    @property
    def counts(self) -> Counter[RowId]:
        """How often each row was visible when the run was judged."""
        return Counter((row.split, row.offset) for row in self.witness.visible_at_end)

    @property
    def repeated(self) -> set[RowId]:
        return {row for row, count in self.counts.items() if count > 1}

    def noted(self, what: str) -> list[tuple[int, str, Any]]:
        """(time, actor, detail) of what was noted in the history."""
        return [(now, actor, detail) for now, actor, _, kind, detail in self.simulation.history if kind == what]


class Steps:
    """A `reach` that counts its calls, and passes the number on."""

    def __init__(self, at: Callable[[int], Any]) -> None:
        self.count, self.at = 0, at

    def __call__(self, point: str) -> None:
        self.count += 1
        self.at(self.count)


def count_steps(deed: Callable[[Steps], Any]) -> int:
    """How many points a deed passes that is given its `reach`."""
    steps = Steps(lambda step: None)
    deed(steps)
    return steps.count


class Engine:
    """Makes small jobs and runs them."""

    FIRST_GENERATION = FIRST_GENERATION
    Target, StagingSink, Witness, Steps, NoRestart = Target, StagingSink, Witness, Steps, NoRestart
    count_steps = staticmethod(count_steps)

    def input(self, *, key: Callable[[int, int], str] | None = None, **sizes: int) -> GeneratedInput:
        key = key or (lambda split, offset: KEYS[(split + offset) % 4])
        return GeneratedInput(lambda split, at: Row(split, at, key(split, at), f"v{split}.{at}"), **sizes)

    def rows_of(self, source: GeneratedInput) -> Counter[RowId]:
        """Each row once."""
        return Counter((split, at) for split in range(source.splits) for at in range(source.length(split)))

    def plan(self, *, sources: int = 2, sinks: int = 2, source: GeneratedInput | None = None) -> Plan:
        return source_to_sink(source or self.input(), sources=sources, sinks=sinks).plan()

    def configuration(self, **options: Any) -> CheckpointConfiguration:
        """Checkpoints cut by progress, several at a time, unless the options say otherwise."""
        if "checkpoint_interval" not in options:
            options = {"checkpoint_interval": None, "checkpoint_every_batches": 2, **options}
        return CheckpointConfiguration(**{"tolerable_checkpoint_failure_number": 10, **options})

    def run(
        self,
        *,
        plan: Plan | None = None,
        schedule: str = "no-fault",
        sink: Callable[[Target], Any] = StagingSink,
        target: Target | None = None,
        storage: Any = None,
        restart: Callable[[], Any] = lambda: FixedDelay(attempts=25),
        before: Callable[[Simulation], Any] = lambda simulation: None,
        buffers: Any = None,
        **options: Any,
    ) -> Run:
        """One run to its end. `before` may change the simulation before it starts."""
        target = target or Target()
        configuration = self.configuration(**options)
        job = Job(plan=plan or self.plan(), configuration=configuration, restart=restart, buffers=buffers)
        witness = Witness(target)
        simulation = Simulation(
            job,
            InProcessHost(lambda: sink(target)),
            storage=storage or MemoryCheckpointStorage(),
            watcher=witness,
            schedule=parse(schedule),
        )
        before(simulation)
        simulation.play()
        return Run(simulation, target, witness)

    def every_single_crash(self, run: Run) -> list[str]:
        """Schedules: at each point that this run has passed, the death of the acting actor, and of the whole job."""
        seen: Counter[tuple[int, str]] = Counter()
        schedules = []
        for actor, point in run.simulation.trace:
            seen[actor, point] += 1
            name = run.simulation.names[actor] + "." if actor else ""
            schedules += [f"{name}{point}#{seen[actor, point]}={kind}" for kind in ("kill", "kill-job")]
        return schedules

    def request(self, at_ms: int, event: str, *, generation: int = FIRST_GENERATION) -> Callable[[Simulation], Any]:
        """For `before`: the coordinator receives a request ("cancel", "stop_with_checkpoint")."""
        return lambda simulation: simulation.post(at_ms, (0, generation), (event, None, None))


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A server of the S3 protocol, for all tests of this process; each takes a bucket of its own."""
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket_url(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a new bucket. Processes that the test starts find it, too."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3.make_bucket(f"bucket-{digest_of(str(tmp_path).encode())[:20]}")


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Holds nothing but classes and functions: every run makes its own world."""
    return Engine()


@pytest.fixture(scope="session")
def source_to_sink_graph(engine: Engine) -> Callable[..., JobGraph]:
    def make(**options: Any) -> JobGraph:
        return source_to_sink(engine.input(), **{"exchange": Exchange.KEYED, **options})

    return make
