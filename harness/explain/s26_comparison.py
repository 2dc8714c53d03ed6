"""S26: the same small job into every pair of strategy and target in memory or files, crashed at each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from sinkproof.chaos.clock import now
from sinkproof.execution.recorded_job import NO_OPTIONS, Identity, Stage, WatchedSimulation
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.explain.checkpoint_folders import scratch_folder
from sinkproof.explain.demonstration import Fact, Scene, check, fact
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.simulated.in_process_host import InProcessHost
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.sink_adapters.protocol import Row
from sinkproof.sink_adapters.registry import PAIRS
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.table.delivery_after_crashes import Crashed, crashed_everywhere
from sinkproof.table.expectations import EXPIRES, checkpoints_to_wait, offers
from sinkproof.table.late_recovery import LATE, SOURCE, TIMEOUT_SECONDS, recovered_late, run_job

LESSON: Final = (
    "who waits for completion shows nothing early, and pays in latency and in state or in the target; who writes at "
    "once is visible at once, and repeats. Only two-phase commit can lose something by being late, only masking needs "
    "readers that know of it."
)
MEASURED: Final = tuple(name for name in PAIRS if name.startswith(("memory/", "files/")) and "parquet" not in name)
BULK: Final = GeneratedInput(
    lambda split, at: Row(split, at, "abeg"[at % 4], f"value {split}.{at}", at), rows_per_split=500, batch_rows=25
)
HEADER: Final = (
    f"{'pair':26} {'grade, measured':16} {'expected':16} {'crashes':>7} {'early':>5} {'late ms':>7} {'effects':>7} "
    f"{'state B':>7} {'peak B':>7} {'lost':>4}"
)
KEY: Final = (
    "early: rows seen before their checkpoint was complete; late ms: from writing a row until a reader sees it, on "
    "average; effects: changes of the target for each row; state B: bytes in checkpoints for each row; peak B: of the "
    f"largest snapshot of {BULK.rows_per_split} rows a split; lost: rows of a complete checkpoint, when recovery comes "
    f"after {LATE * TIMEOUT_SECONDS:g} s and the target aborts what is older than {TIMEOUT_SECONDS:g} s"
)


class Measures(NamedTuple):
    crashed: Crashed
    early: int
    late_ms: float
    effects_per_row: float
    state_bytes_per_row: float
    state_bytes_peak: int
    lost_by_timeout: int

    @property
    def grade(self) -> str:
        return self.crashed.grade.value

    @property
    def value(self) -> dict[str, Any]:
        crashed = {"grade": self.grade, "crashes": self.crashed.crashes, "oracles": sorted(self.crashed.oracles)}
        return {**crashed, **{name: figure for name, figure in self._asdict().items() if name != "crashed"}}

    def line(self, name: str) -> str:
        return (
            f"{name:26} {self.grade:16} {PAIRS[name].grade:16} {self.crashed.crashes:7} {self.early:5} "
            f"{self.late_ms:7.1f} {self.effects_per_row:7.2f} {self.state_bytes_per_row:7.1f} "
            f"{self.state_bytes_peak:7} {self.lost_by_timeout:4}"
        )


def scenes() -> tuple[Scene, ...]:
    found = {name: _measured(name) for name in MEASURED}
    table = {name: row for name, (row, _) in found.items()}
    speeds = {name: rows_per_second for name, (_, rows_per_second) in found.items()}
    crashes = sum(row.crashed.crashes for row in table.values())
    strategies = dict.fromkeys(name.partition("/")[2] for name in table)
    scene = Scene(
        title="Every pair in memory and files",
        ran="for each pair: the certifying job, one crash at each step of coordinator and one sink; and a job of "
        f"{SOURCE.splits * SOURCE.length(0)} rows, watched",
        facts=(
            fact(HEADER, HEADER.split()),
            *(fact(row.line(name), row.value) for name, row in table.items()),
            fact(KEY, None),
            Fact(says=f"rows a second, simulated, here and now: {_said(speeds)}", value=speeds, varies=True),
            *(
                fact(f"what a target of {strategy} must offer: {', '.join(offers(strategy))}", offers(strategy))
                for strategy in strategies
            ),
        ),
        outcome=f"{len(table)} pairs, {crashes} crashes; grades measured: "
        f"{', '.join(sorted({r.grade for r in table.values()}))}",
        checks=(
            *(
                check(f"{name}: the grade is the one expected", PAIRS[name].grade, row.grade)
                for name, row in table.items()
            ),
            check(
                "no claim of any pair broke",
                [],
                [name for name, row in table.items() if row.crashed.breaks(_claims(name))],
            ),
            check(
                "who writes at once is seen early, and nobody who waits for completion",
                [name for name in table if not checkpoints_to_wait(name)],
                [name for name, row in table.items() if row.early],
            ),
            check(
                "nobody is seen early who claims NO_EARLY_ROWS",
                [],
                [name for name, row in table.items() if row.early and _claims(name) & Claim.NO_EARLY_ROWS],
            ),
            check(
                "only transactions of a target with a timeout can be lost by being late",
                [name for name in table if name in EXPIRES],
                [name for name, row in table.items() if row.lost_by_timeout],
            ),
        ),
    )
    return (scene,)


def _said(speeds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {speed:,.0f}" for name, speed in speeds.items())


def _claims(name: str) -> Claim:
    return load(name).claims


def _measured(name: str) -> tuple[Measures, float]:
    """And rows a second."""
    with scratch_folder() as folder:
        contract, scratch = load(name), Scratch(name=f"explain-{name}", path=folder)
        with ScheduleRunner(contract, scratch) as runner:
            crashed = crashed_everywhere(runner)
            runner.reset()
            early, late, effects, state = _watched(contract, scratch)
            runner.reset()
            lost = recovered_late(contract, scratch).rows_lost
            runner.reset()
            peak, rows_per_second = _in_bulk(contract, scratch)
    return Measures(crashed, early, late, effects, state, peak, lost), rows_per_second


# -- one job, watched -----------------------------------------------------------------------------


class Eyes:
    """A reader that looks at every point that somebody passes."""

    def __init__(self, read: Callable[[], list[Identity]]) -> None:
        self.read = read
        self.first_seen: dict[Identity, float] = {}
        self.early: set[Identity] = set()

    def watch(self, simulation: WatchedSimulation) -> None:
        passed = simulation.spy

        def spy(shell: Any, point: str) -> None:
            if passed is not None:
                passed(shell, point)
            self.look(shell)

        simulation.spy = spy

    def look(self, simulation: Any) -> None:
        offsets = simulation.covered(simulation.storage.latest())
        for row in self.read():
            if row not in self.first_seen:
                self.first_seen[row] = simulation.now
                if row[1] >= offsets.get(row[0], 0):
                    self.early.add(row)


def _watched(contract: Contract, scratch: Scratch) -> tuple[int, float, float, float]:
    """(rows seen early, ms from written to seen, effects for each row, bytes of state for each row)."""
    eyes = Eyes(lambda: contract.committed(scratch))
    before = contract.given.version(scratch)
    run = run_job(contract, scratch, before=eyes.watch)
    effects = contract.given.version(scratch) - before
    written = {row[:2]: each.at_ms for each in run.of("writes") for row in each.detail}
    eyes.look(run.simulation)
    late = [eyes.first_seen[row] - at for row, at in written.items() if row in eyes.first_seen]
    states = [states["sink"] for record in run.stage.decided for states in record.states.values() if "sink" in states]
    rows = len(written)
    return len(eyes.early), sum(late) / rows, effects / rows, sum(map(len, states)) / rows


def _in_bulk(contract: Contract, scratch: Scratch) -> tuple[int, float]:
    """(bytes of the largest snapshot of one sink, rows a second): a job of some thousand rows, not watched."""
    stage = Stage(lambda: ())
    options = {**NO_OPTIONS, "checkpoint_every_batches": 5}
    simulation = Simulation(
        Job(plan=source_to_sink(BULK).plan(), configuration=CheckpointConfiguration(**options)),
        InProcessHost(lambda: contract.sink(scratch)),
        storage=MemoryCheckpointStorage(),
        watcher=stage,
    )
    begun = now()
    simulation.play()
    seconds = now() - begun
    states = [states["sink"] for record in stage.decided for states in record.states.values() if "sink" in states]
    return max(map(len, states)), BULK.splits * BULK.rows_per_split / seconds
