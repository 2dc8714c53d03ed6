"""S26: the same small job into every pair of strategy and target in memory or files, crashed at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sinkproof.chaos.clock import now
from sinkproof.execution.recorded_job import NO_OPTIONS, Identity, ReaderLog, RecordingSimulation
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.explain.demonstration import Scene
from sinkproof.explain.small_jobs import collected_warnings, scratch_folder
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
from sinkproof.table.expected_and_empty_cells import EXPIRES, checkpoints_to_wait, offers
from sinkproof.table.late_recovery import LATE, SOURCE, TIMEOUT_SECONDS, recovered_late, run_job

LESSON: Final = (
    "a sink that waits for completion shows no row early, at the price of latency and of state or space in the target; "
    "a sink that writes at once is visible at once, and repeats. Only two-phase commit can lose rows by a late "
    "recovery, only masking needs readers that know the marker."
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
    "early: rows visible before their checkpoint was complete; late ms: average time from writing a row until a reader "
    "sees it; effects: changes of the target per row; state B: bytes in checkpoints per row; peak B: bytes of the "
    f"largest snapshot with {BULK.rows_per_split} rows per split; lost: rows of a complete checkpoint, when recovery "
    f"comes after {LATE * TIMEOUT_SECONDS:g} s and the target aborts transactions older than {TIMEOUT_SECONDS:g} s"
)


class StrategyMeasures(NamedTuple):
    crashed: Crashed
    early: int
    late_ms: float
    effects_per_row: float
    state_bytes_per_row: float
    state_bytes_peak: int
    lost_by_timeout: int
    rows_per_second: float  # in real time

    @property
    def grade(self) -> str:
        return self.crashed.grade.value

    @property
    def value(self) -> dict[str, Any]:
        crashed = {"grade": self.grade, "crashes": self.crashed.crashes, "oracles": sorted(self.crashed.oracles)}
        others = {name: figure for name, figure in self._asdict().items() if name not in ("crashed", "rows_per_second")}
        return crashed | others

    def line(self, name: str) -> str:
        return (
            f"{name:26} {self.grade:16} {PAIRS[name].grade:16} {self.crashed.crashes:7} {self.early:5} "
            f"{self.late_ms:7.1f} {self.effects_per_row:7.2f} {self.state_bytes_per_row:7.1f} "
            f"{self.state_bytes_peak:7} {self.lost_by_timeout:4}"
        )


def scenes() -> tuple[Scene, ...]:
    table = {name: _measured(name) for name in MEASURED}
    speeds = {name: row.rows_per_second for name, row in table.items()}
    speeds_named = ", ".join(f"{name} {speed:,.0f}" for name, speed in speeds.items())
    claims = {name: load(name).claims for name in table}
    crashes = sum(row.crashed.crashes for row in table.values())
    strategies = dict.fromkeys(name.partition("/")[2] for name in table)
    scene = Scene("Every pair in memory and files")
    scene.ran = (
        "for each pair: the certifying job, one crash at each step of coordinator and one sink; and a job of "
        f"{SOURCE.splits * SOURCE.length(0)} rows, observed"
    )
    scene.fact(HEADER, HEADER.split())
    for name, row in table.items():
        scene.fact(row.line(name), row.value)
    scene.fact(KEY, None)
    scene.fact(f"rows per second, simulated, in this run: {speeds_named}", speeds, varies=True)
    for strategy in strategies:
        scene.fact(f"what a target of {strategy} must offer: {', '.join(offers(strategy))}", offers(strategy))
    for name, row in table.items():
        scene.check(f"{name}: the grade is the one expected", PAIRS[name].grade, row.grade)
    scene.check(
        "no claim of any pair is violated",
        [],
        [f"{name}: {what}" for name, row in table.items() for what in row.crashed.broken(claims[name])],
    )
    scene.check(
        "rows are visible early exactly in the pairs that do not wait for completion",
        [name for name in table if not checkpoints_to_wait(name)],
        [name for name, row in table.items() if row.early],
    )
    scene.check(
        "no pair that claims NO_EARLY_ROWS shows rows early",
        [],
        [name for name, row in table.items() if row.early and claims[name] & Claim.NO_EARLY_ROWS],
    )
    scene.check(
        "a late recovery loses rows only in targets with a transaction timeout",
        [name for name in table if name in EXPIRES],
        [name for name, row in table.items() if row.lost_by_timeout],
    )
    grades = ", ".join(sorted({row.grade for row in table.values()}))
    return (scene.finish(f"{len(table)} pairs, {crashes} crashes; grades measured: {grades}"),)


def _measured(name: str) -> StrategyMeasures:
    with scratch_folder() as folder:
        contract, scratch = load(name), Scratch(name=f"explain-{name}", path=folder)
        with ScheduleRunner(contract, scratch) as runner:
            crashed = crashed_everywhere(runner)
            runner.reset()
            early, late, effects, state = _observed(contract, scratch)
            runner.reset()
            with collected_warnings():
                lost = recovered_late(contract, scratch).rows_lost
            runner.reset()
            peak, rows_per_second = _in_bulk(contract, scratch)
    return StrategyMeasures(crashed, early, late, effects, state, peak, lost, rows_per_second)


# -- one job, observed ----------------------------------------------------------------------------


class PointReader:
    """Reads the output at every point that the job reaches."""

    def __init__(self, read: Callable[[], list[Identity]]) -> None:
        self.read = read
        self.first_seen: dict[Identity, float] = {}
        self.early: set[Identity] = set()

    def install(self, simulation: RecordingSimulation) -> None:
        recording = simulation.on_point

        def on_point(shell: Any, point: str) -> None:
            if recording is not None:
                recording(shell, point)
            self.read_now(shell)

        simulation.on_point = on_point

    def read_now(self, simulation: Any) -> None:
        offsets = simulation.covered(simulation.storage.latest())
        for row in self.read():
            if row not in self.first_seen:
                self.first_seen[row] = simulation.now
                if row[1] >= offsets.get(row[0], 0):
                    self.early.add(row)


def _observed(contract: Contract, scratch: Scratch) -> tuple[int, float, float, float]:
    """(rows visible early, ms from written to visible, effects per row, bytes of state per row)."""
    reader = PointReader(lambda: contract.committed(scratch))
    before = contract.given.version(scratch)
    run = run_job(contract, scratch, before=reader.install)
    effects = contract.given.version(scratch) - before
    written = {row[:2]: each.at_ms for each in run.of("writes") for row in each.detail}
    reader.read_now(run.simulation)
    late = [reader.first_seen[row] - at for row, at in written.items() if row in reader.first_seen]
    rows = len(written)
    return len(reader.early), sum(late) / rows, effects / rows, sum(map(len, _sink_states(run.seen))) / rows


def _in_bulk(contract: Contract, scratch: Scratch) -> tuple[int, float]:
    """(bytes of the largest snapshot of one sink, rows per second): a job of a thousand rows, not observed."""
    seen = ReaderLog(lambda: ())
    options = {**NO_OPTIONS, "checkpoint_every_batches": 5}
    simulation = Simulation(
        Job(plan=source_to_sink(BULK).plan(), configuration=CheckpointConfiguration(**options)),
        InProcessHost(lambda: contract.sink(scratch)),
        storage=MemoryCheckpointStorage(),
        watcher=seen,
    )
    begun = now()
    simulation.play()
    seconds = now() - begun
    return max(map(len, _sink_states(seen))), BULK.splits * BULK.rows_per_split / seconds


def _sink_states(seen: ReaderLog) -> list[bytes]:
    return [states["sink"] for record in seen.decided for states in record.states.values() if "sink" in states]
