"""S05: barriers that overtake rows, the rows in the snapshot, and a restore that ignores them."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.demonstration import Scene, counts_named, rows_named
from sinkproof.explain.small_jobs import COUNTED, COUNTING, DeliveredRun, refusal, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    ConfigurationError,
)
from sinkproof.reference_engine.checkpointing.restore_and_rescale import in_flight
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.shells.job import Job

LESSON: Final = (
    "the barrier does not wait for rows, so the rows it overtakes are written into the checkpoint and replayed from "
    "there: exactly once, faster where rows queue up, at the price of larger checkpoints. Rows that a restore is "
    "configured to ignore are lost."
)
SEEDS: Final = range(1, 30)
OPTIONS: Final[dict[str, Any]] = {"checkpoint_interval": 7, "max_concurrent_checkpoints": 1}
UNALIGNED: Final = {**OPTIONS, "unaligned_checkpoints": True}
CRASH: Final = "checkpoint.notify#1=kill-job"


def scenes() -> tuple[Scene, ...]:
    seed = next(seed for seed in SEEDS if _in_flight(_run(seed, **UNALIGNED)))
    return (_overtaking(seed), _replayed(seed), _ignored(seed), _after_a_timeout(seed), _forced())


def _run(seed: int, *, crash: str = CRASH, **options: Any) -> DeliveredRun:
    return run_job(plan=COUNTING, schedule=f"seed={seed} {crash}", **options)


def _in_flight(run: RecordedRun) -> list[Any]:
    """Rows in flight in checkpoint 1."""
    return sorted(in_flight(run.seen.decided[0]))


def _waited(run: RecordedRun) -> float:
    """From the first barrier of checkpoint 1 at the sink to its snapshot, in ms."""
    first = next(each.at_ms for each in run.of("barrier", "barrier urgent", actor="sink") if each.detail[1] == 1)
    return run.of("snapshot", actor="sink", checkpoint_id=1)[0].at_ms - first


def _overtaking(seed: int) -> Scene:
    aligned, run = _run(seed, **OPTIONS), _run(seed, **UNALIGNED)
    rows = _in_flight(run)
    waited = {"aligned": _waited(aligned), "unaligned": _waited(run)}
    kinds = "forwards urgent", "barrier urgent", "sends", "snapshot", "writes"
    scene = Scene("The barrier overtakes rows")
    scene.ran = f"2 sources -> keyed count -> two-phase sink, unaligned_checkpoints, seed={seed}"
    scene.steps = timeline(run, *kinds, until=run.of("snapshot", actor="sink")[0].at_ms + 4)
    scene.fact(
        f"from the first barrier to the snapshot: {waited['aligned']:g} ms aligned, {waited['unaligned']:g} ms "
        "unaligned",
        waited,
    )
    scene.fact(f"offsets in checkpoint 1: {run.offsets(1)}; rows in flight in it: {rows_named(rows)}", rows)
    scene.check("there are rows in flight", True, bool(rows))
    scene.check("no barrier waits for the other", 0.0, float(waited["unaligned"]))
    scene.check(
        "they are exactly the covered rows that are not in the state",
        set(run.covered(1)) - set(run.rows_written(before_snapshot=1)),
        rows,
    )
    scene.check("the same checkpoint, aligned, holds none", [], _in_flight(aligned))
    return scene.finish(
        f"the sink's snapshot is taken at once; the rows in flight, {rows_named(rows)}, which the offsets cover and "
        "the count has not processed, are kept in the checkpoint"
    )


def _replayed(seed: int) -> Scene:
    run = _run(seed, **UNALIGNED)
    rows, read = _in_flight(run), sorted(run.rows_read(generation=2))
    first = run.rows_written(generation=2)[: len(rows)]
    scene = Scene("After a crash the rows in flight are replayed from the checkpoint")
    scene.ran = f"the same job, {run.schedule}"
    scene.steps = timeline(run, *RECOVERY, "writes", around_crash=(4, 14))
    scene.fact(
        f"rows in flight: {rows_named(rows)}; the first rows that generation 2 processes: {rows_named(first)}", first
    )
    scene.fact(f"its sources read {rows_named(read)}", read)
    scene.check("the rows in flight come first", rows, sorted(first))
    scene.check("they come from the checkpoint, not from the sources", [], sorted(set(rows) & set(read)))
    scene.check("exactly once again", ([], [], run.right_counts), (*run.lost_and_repeated, run.counts))
    return scene.finish(f"counts {counts_named(run.counts)}, expected {counts_named(run.right_counts)}")


def _ignored(seed: int) -> Scene:
    run = _run(seed, **UNALIGNED, checkpoint_id_of_ignored_in_flight_data=1)
    rows = _in_flight(run)
    lost, repeated = run.lost_and_repeated
    scene = Scene("The same restore, configured to ignore them: a wrong result")
    scene.ran = f"the same job, checkpoint_id_of_ignored_in_flight_data=1, {run.schedule}"
    scene.fact(f"in flight in checkpoint 1: {rows_named(rows)}", rows)
    scene.check("exactly those rows are lost", rows, lost)
    scene.check("no row is repeated", [], repeated)
    scene.check("a count is wrong", True, bool(run.wrong_counts))
    return scene.finish(f"{rows_named(lost)} lost; {'; '.join(run.wrong_counts)}")


def _after_a_timeout(seed: int) -> Scene:
    """A checkpoint that is aligned in time stays aligned; one that is not turns unaligned."""
    runs = {
        timeout_ms: _run(seed, crash="no-fault", **UNALIGNED, aligned_checkpoint_timeout=timeout_ms)
        for timeout_ms in (1, 50)
    }
    ids = {timeout_ms: [record.checkpoint_id for record in run.seen.decided] for timeout_ms, run in runs.items()}
    turned = {
        timeout_ms: [record.checkpoint_id for record in run.seen.decided if in_flight(record)]
        for timeout_ms, run in runs.items()
    }
    scene = Scene("aligned_checkpoint_timeout: begin aligned, turn unaligned when that takes too long")
    scene.ran = "the same job without a crash, with a timeout of 1 ms and of 50 ms"
    for timeout_ms, found in turned.items():
        scene.fact(
            f"{timeout_ms} ms: of checkpoints {ids[timeout_ms]} these hold rows in flight: {found or 'none'}", found
        )
    scene.check("some are not aligned within 1 ms", True, bool(turned[1]))
    scene.check("all are aligned within 50 ms", [], turned[50])
    scene.check("the final one stays aligned", False, ids[1][-1] in turned[1])
    scene.check("no row is lost or repeated", [([], [])] * 2, [run.lost_and_repeated for run in runs.values()])
    return scene.finish(
        f"with 1 ms {len(turned[1])} of {len(ids[1])} checkpoints turn unaligned, with 50 ms {len(turned[50])}"
    )


def _custom() -> Plan:
    vertices = (Vertex(name="source", parallelism=2, source=COUNTED), Vertex(name="sink", parallelism=2, sink=True))
    edge = Edge("source", "sink", Exchange.CUSTOM, partitioner=lambda row, parallelism: row.offset % parallelism)
    return JobGraph(vertices, (edge,)).plan()


def refusal_of_a_custom_exchange(*, forced: bool) -> str:
    """Why unaligned checkpoints are refused behind a custom exchange; nothing if they are accepted."""
    options: dict[str, Any] = {**UNALIGNED, "force_unaligned_checkpoints": forced}
    return refusal(ConfigurationError, lambda: Job(plan=_custom(), configuration=CheckpointConfiguration(**options)))


def _forced() -> Scene:
    refused = refusal_of_a_custom_exchange(forced=False)
    run = run_job(plan=_custom(), **UNALIGNED, force_unaligned_checkpoints=True)
    scene = Scene("force_unaligned_checkpoints: also where the job graph rules them out")
    scene.ran = "source x2 -> sink x2 by a custom partitioner, without and with force_unaligned_checkpoints"
    scene.fact(f"without: {refused or 'accepted'}", refused)
    scene.check("refused, with the reason", True, "custom exchange" in refused)
    scene.check("with force the job runs", ([], []), run.lost_and_repeated)
    return scene.finish(
        f"without it the job is {'refused' if refused else 'accepted'}; with it {len(run.seen.decided)} "
        "checkpoints were complete"
    )
