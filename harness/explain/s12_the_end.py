"""S12: bounded input, stop-with-checkpoint, and a last notification that never arrives."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.execution.recorded_job import Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "rows behind the last barrier would stay pre-committed for ever: a final checkpoint covers them, the job ends when "
    "every sink has settled it, and if one cannot be told, a restart from it does the rest."
)
SOURCE: Final = letters("aebga|gabeg")
STOPPED_AT_MS: Final = 19


def scenes() -> tuple[Scene, ...]:
    return (_bounded(), _stopped(), _never_told())


def _run(*, schedule: str = "no-fault", **options: Any) -> Run:
    target = Transactional()
    return play(source_to_sink(SOURCE).plan(), target.sink, read=target.read, schedule=schedule, **options)


def _bounded() -> Scene:
    run = _run()
    final = run.stage.decided[-1]
    before = run.stage.visible_when_deciding[final.checkpoint_id]
    by_it = sorted(set(run.visible) - set(before))
    lost, extra = once_each(SOURCE, run.visible)
    finals = [record.checkpoint_id for record in run.stage.decided if record.final]
    return Scene(
        title="The input ends",
        ran=f"source x2 -> sink x2, {SOURCE.length(0)} rows in each split, a checkpoint every 2 batches",
        steps=run.steps("trigger", "complete", "told", points=["end_of_input.after", "commit.after"], since=30),
        facts=(fact(f"visible when checkpoint {final.checkpoint_id} was decided: {rows_named(before)}", before),),
        outcome=f"the final checkpoint {final.checkpoint_id} brings {rows_named(by_it)}",
        checks=(
            check("the last checkpoint, and no other, is final", [final.checkpoint_id], finals),
            check("it brings rows that nothing else would", True, bool(by_it)),
            check(
                "the job has finished, nothing lost or repeated", (True, [], []), (run.simulation.finished, lost, extra)
            ),
        ),
    )


def _stopped() -> Scene:
    run = _run(
        before=lambda simulation: simulation.post(
            STOPPED_AT_MS, (0, FIRST_GENERATION), ("stop_with_checkpoint", None, None)
        )
    )
    final = run.stage.decided[-1]
    offsets = run.simulation.covered(final)
    covered = sorted((split, at) for split, end in offsets.items() for at in range(end))
    written = sorted(run.rows_written())
    return Scene(
        title="Somebody stops the job with a checkpoint",
        ran=f"the same job, asked to stop at {STOPPED_AT_MS} ms",
        steps=run.steps("trigger", "complete", "told", points=["end_of_input.after"], since=STOPPED_AT_MS - 5),
        facts=(fact(f"offsets in the final checkpoint: {offsets} of {SOURCE.length(0)}", offsets),),
        outcome=f"{rows_named(written)} had been read, all of them are visible, and a later job goes on at {offsets}",
        checks=(
            check("stopped before the input ended", True, 0 < len(covered) < SOURCE.splits * SOURCE.length(0)),
            check("the final checkpoint covers what was read", written, covered),
            check("and all of it is visible", covered, sorted(run.visible)),
            check("the job has finished", (True, True), (run.simulation.finished, final.final)),
        ),
    )


def _never_told() -> Scene:
    """The last notification of one sink is lost: nothing follows that could carry it."""
    sinks, usual = 2, _run()
    last = sinks * len(usual.of("complete"))
    run = _run(schedule=f"checkpoint.notify#{last}=lose")
    final = run.stage.decided[-1].checkpoint_id
    restored = sorted({(each.actor, each.detail) for each in run.of("restored") if each.generation == 2})
    lost, extra = once_each(SOURCE, run.visible)
    at = run.of("fault")[0].at_ms
    return Scene(
        title="The last notification is lost",
        ran=f"the same job, {run.schedule}",
        steps=run.steps("complete", "told", "generation", "restored", points=["commit.after"], since=at - 1),
        facts=(
            fact(
                f"of {sinks} sinks one was told of checkpoint {final} in generation 1",
                sorted({each.actor for each in run.of("told") if each.detail == final and each.generation == 1}),
            ),
        ),
        outcome=f"generation {run.generations} is restored from the final checkpoint {final}, only to settle it",
        checks=(
            check(
                "the sinks are restored from the final checkpoint", [("sink[0]", final), ("sink[1]", final)], restored
            ),
            check("nobody reads again", [], run.rows_written(generation=2)),
            check(
                "the job has finished, nothing lost or repeated", (True, [], []), (run.simulation.finished, lost, extra)
            ),
        ),
    )
