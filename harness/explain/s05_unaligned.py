"""S05: barriers that overtake rows; the rows in the snapshot; and a restore that is told to ignore them."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.execution.recorded_job import Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, rows_named
from sinkproof.explain.small_jobs import Transactional, counting_plan, greatest_values, true_counts
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    ConfigurationError,
)
from sinkproof.reference_engine.checkpointing.restore_and_rescale import in_flight
from sinkproof.reference_engine.dataflow.job_graph import Edge, Exchange, JobGraph, Plan, Vertex
from sinkproof.reference_engine.shells.job import Job

LESSON: Final = (
    "the barrier does not wait for rows, so the rows it overtakes are written into the checkpoint and replayed from "
    "there: exactly once, faster where rows queue up, and dearer. What a restore is told to ignore is lost."
)
SOURCE: Final = letters("aabaab|babaab")
SEEDS: Final = range(1, 30)
OPTIONS: Final[dict[str, Any]] = {"checkpoint_interval": 7, "max_concurrent_checkpoints": 1}
UNALIGNED: Final = {**OPTIONS, "unaligned_checkpoints": True}
CRASH: Final = "checkpoint.notify#1=kill-job"


def scenes() -> tuple[Scene, ...]:
    seed = next(seed for seed in SEEDS if in_flight(_run(seed, **UNALIGNED)[0].stage.decided[0]))
    return (
        _overtaking(seed),
        _replayed(seed),
        _ignored(seed),
        _after_a_timeout(seed),
        _forced(),
    )


def _run(seed: int, *, crash: str = CRASH, **options: Any) -> tuple[Run, Transactional]:
    target = Transactional()
    run = play(
        counting_plan(SOURCE),
        target.sink,
        read=target.read,
        schedule=f"seed={seed} {crash}",
        **options,
    )
    return run, target


def _waited(run: Run) -> tuple[float, float]:
    """(first barrier of checkpoint 1 at the sink, its snapshot)."""
    first = next(each.at_ms for each in run.of("barrier", "barrier urgent", actor="sink") if each.detail[1] == 1)
    return first, next(each.at_ms for each in run.of("snapshot", actor="sink") if each.detail == 1)


def _overtaking(seed: int) -> Scene:
    aligned, _ = _run(seed, **OPTIONS)
    unaligned, _ = _run(seed, **UNALIGNED)
    waits = {name: _waited(run) for name, run in (("aligned", aligned), ("unaligned", unaligned))}
    rows = sorted(in_flight(unaligned.stage.decided[0]))
    offsets = unaligned.simulation.covered(unaligned.stage.decided[0])
    before = set(unaligned.rows_written(before_snapshot=1))
    covered = {(split, at) for split, end in offsets.items() for at in range(end)}
    waited = {name: snapshot - first for name, (first, snapshot) in waits.items()}
    return Scene(
        title="The barrier overtakes rows",
        ran=f"2 sources -> keyed count -> two-phase sink, unaligned_checkpoints, seed={seed}",
        steps=unaligned.steps(
            "forwards urgent",
            "barrier urgent",
            "sends",
            "snapshot",
            "writes",
            until=unaligned.of("snapshot", actor="sink")[0].at_ms + 4,
        ),
        facts=(
            fact(
                f"from the first barrier to the snapshot: {waited['aligned']:g} ms aligned, {waited['unaligned']:g} ms "
                "unaligned",
                waited,
            ),
            fact(f"offsets in checkpoint 1: {offsets}; rows in flight in it: {rows_named(rows)}", rows),
        ),
        outcome=f"the sink's snapshot is taken at once; {rows_named(rows)}, which the offsets cover and the count has "
        "not had, are kept in the checkpoint",
        checks=(
            check("there are rows in flight", True, bool(rows)),
            check("nothing waits for the other barrier", 0.0, float(waited["unaligned"])),
            check("they are exactly what is covered and not in the state", covered - before, rows),
            check("the same checkpoint, aligned, holds none", [], sorted(in_flight(aligned.stage.decided[0]))),
        ),
    )


def _replayed(seed: int) -> Scene:
    run, target = _run(seed, **UNALIGNED)
    rows = sorted(in_flight(run.stage.decided[0]))
    again = run.rows_written(generation=2)
    read = [row[:2] for each in run.of("sends", actor="source") if each.generation == 2 for row in each.detail[1]]
    counts = greatest_values(target.rows)
    return Scene(
        title="A crash: what was in flight comes out of the checkpoint",
        ran=f"the same job, {run.schedule}",
        steps=run.steps(
            "complete",
            "generation",
            "restored",
            "writes",
            since=run.of("fault")[0].at_ms - 4,
            until=run.of("fault")[0].at_ms + 14,
        ),
        facts=(
            fact(
                f"generation 2 processes {rows_named(rows)} first, before anything is read: "
                f"{rows_named(again[: len(rows)])}",
                again[: len(rows)],
            ),
            fact(f"its sources read {rows_named(sorted(read))}", sorted(read)),
        ),
        outcome=f"counts {counts_named(counts)}, expected {counts_named(true_counts(SOURCE))}",
        checks=(
            check("the rows in flight come first", rows, sorted(again[: len(rows)])),
            check("and from the checkpoint, not from the sources", [], sorted(set(rows) & set(read))),
            check("exactly once again", ([], [], true_counts(SOURCE)), (*once_each(SOURCE, run.visible), counts)),
        ),
    )


def _ignored(seed: int) -> Scene:
    run, target = _run(seed, **UNALIGNED, checkpoint_id_of_ignored_in_flight_data=1)
    rows = sorted(in_flight(run.stage.decided[0]))
    lost, extra = once_each(SOURCE, run.visible)
    counts, right = greatest_values(target.rows), true_counts(SOURCE)
    wrong = [f"count {key}={counts[key]}, expected {right[key]}" for key in right if counts[key] != right[key]]
    return Scene(
        title="The same restore, told to ignore them: a wrong result",
        ran=f"the same job, checkpoint_id_of_ignored_in_flight_data=1, {run.schedule}",
        facts=(fact(f"in flight in checkpoint 1: {rows_named(rows)}", rows),),
        outcome=f"{rows_named(lost)} lost; {'; '.join(wrong)}",
        checks=(
            check("exactly those rows are lost", rows, lost),
            check("none is repeated", [], extra),
            check("a count is wrong", True, bool(wrong)),
        ),
    )


def _after_a_timeout(seed: int) -> Scene:
    """A checkpoint that is aligned in time stays aligned; one that is not turns unaligned."""
    tried = {}
    for timeout_ms in (1, 50):
        run, _ = _run(seed, crash="no-fault", **UNALIGNED, aligned_checkpoint_timeout=timeout_ms)
        turned = [record.checkpoint_id for record in run.stage.decided if in_flight(record)]
        tried[timeout_ms] = (
            turned,
            [record.checkpoint_id for record in run.stage.decided],
            once_each(SOURCE, run.visible),
        )
    short, long = tried[1], tried[50]
    return Scene(
        title="aligned_checkpoint_timeout: begin aligned, turn unaligned when that takes too long",
        ran="the same job without a crash, with a timeout of 1 ms and of 50 ms",
        facts=tuple(
            fact(f"{timeout_ms} ms: checkpoints {turned or 'none'} of {ids} have overtaken rows", turned)
            for timeout_ms, (turned, ids, _) in tried.items()
        ),
        outcome=f"with 1 ms {len(short[0])} of {len(short[1])} checkpoints have overtaken rows, with 50 ms "
        f"{len(long[0])}",
        checks=(
            check("some are not aligned within 1 ms", True, bool(short[0])),
            check("all are within 50 ms", [], long[0]),
            check("the final one stays aligned", False, short[1][-1] in short[0]),
            check("nothing is lost or repeated", [([], []), ([], [])], [short[2], long[2]]),
        ),
    )


def _custom() -> Plan:
    vertices = (Vertex(name="source", parallelism=2, source=SOURCE), Vertex(name="sink", parallelism=2, sink=True))
    edge = Edge("source", "sink", Exchange.CUSTOM, partitioner=lambda row, parallelism: row.offset % parallelism)
    return JobGraph(vertices, (edge,)).plan()


def refusal_of_a_custom_exchange(*, forced: bool) -> str:
    """Why unaligned checkpoints are not taken there; nothing if they are."""
    options: dict[str, Any] = {
        "checkpoint_interval": 7,
        "unaligned_checkpoints": True,
        "force_unaligned_checkpoints": forced,
    }
    try:
        Job(plan=_custom(), configuration=CheckpointConfiguration(**options))
    except ConfigurationError as error:
        return str(error)
    return ""


def _forced() -> Scene:
    refused = refusal_of_a_custom_exchange(forced=False)
    target = Transactional()
    run = play(_custom(), target.sink, read=target.read, **UNALIGNED, force_unaligned_checkpoints=True)
    return Scene(
        title="force_unaligned_checkpoints: also where the job graph rules them out",
        ran="source x2 -> sink x2 by a partitioner of the user's own, without and with force_unaligned_checkpoints",
        facts=(fact(f"without: {refused or 'accepted'}", refused),),
        outcome=f"without it the job is {'refused' if refused else 'accepted'}; with it {len(run.stage.decided)} "
        "checkpoints were complete",
        checks=(
            check("refused, with the reason", True, "custom exchange" in refused),
            check("forced, it runs", ([], []), once_each(SOURCE, run.visible)),
        ),
    )
