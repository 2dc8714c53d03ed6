"""S12: bounded input, stop-with-checkpoint, and a last notification that is lost."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun, letters
from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import requested_at, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "rows behind the last barrier would stay pre-committed for ever: a final checkpoint covers them, the job ends when "
    "every sink has settled it, and if a sink misses the notification, a restart from the final checkpoint settles it."
)
SOURCE: Final = letters("aebga|gabeg")
STOPPED_AT_MS: Final = 19


def scenes() -> tuple[Scene, ...]:
    return (_bounded(), _stopped(), _notification_lost())


def _run(**options: Any) -> RecordedRun:
    return run_job(plan=source_to_sink(SOURCE).plan(), **options)


def _bounded() -> Scene:
    run = _run()
    final = run.seen.decided[-1].checkpoint_id
    before = run.seen.visible_when_deciding[final]
    brought = sorted(set(run.visible) - set(before))
    points = "end_of_input.after", "commit.after"
    scene = Scene("The input ends")
    scene.ran = f"source x2 -> sink x2, {SOURCE.length(0)} rows in each split, a checkpoint every 2 batches"
    scene.steps = timeline(run, "trigger", "complete", "notified", points=points, since=30)
    scene.fact(f"visible when checkpoint {final} was decided: {rows_named(before)}", before)
    scene.check(
        "the last checkpoint, and no other, is final",
        [final],
        [record.checkpoint_id for record in run.seen.decided if record.final],
    )
    scene.check("rows become visible only by it", True, bool(brought))
    _check_finished(scene, run)
    return scene.finish(f"the final checkpoint {final} brings {rows_named(brought)}")


def _check_finished(scene: Scene, run: RecordedRun) -> None:
    found = run.simulation.finished, *run.lost_and_repeated
    scene.check("the job has finished, no row is lost or repeated", (True, [], []), found)


def _stopped() -> Scene:
    run = _run(before=requested_at(STOPPED_AT_MS, "stop_with_checkpoint"))
    final = run.seen.decided[-1]
    offsets, covered = run.offsets(final.checkpoint_id), run.covered(final.checkpoint_id)
    written = sorted(run.rows_written())
    kinds = "trigger", "complete", "notified"
    scene = Scene("The job is stopped with a checkpoint")
    scene.ran = f"the same job, stop_with_checkpoint requested at {STOPPED_AT_MS} ms"
    scene.steps = timeline(run, *kinds, points=["end_of_input.after"], since=STOPPED_AT_MS - 5)
    scene.fact(f"offsets in the final checkpoint: {offsets} of {SOURCE.length(0)}", offsets)
    scene.check("stopped before the input ended", True, 0 < len(covered) < SOURCE.splits * SOURCE.length(0))
    scene.check("the final checkpoint covers the rows read", written, covered)
    scene.check("all of them are visible", covered, sorted(run.visible))
    scene.check("the job has finished", (True, True), (run.simulation.finished, final.final))
    return scene.finish(
        f"{rows_named(written)} had been read, all of them are visible, and a later job resumes at {offsets}"
    )


def _notification_lost() -> Scene:
    """The last notification to one sink is lost, and no later notification can cover it."""
    sinks = 2
    last = sinks * len(_run().of("complete"))
    run = _run(schedule=f"checkpoint.notify#{last}=lose")
    final = run.seen.decided[-1].checkpoint_id
    notified = run.actors("notified", checkpoint_id=final, generation=1)
    scene = Scene("The last notification is lost")
    scene.ran = f"the same job, {run.schedule}"
    scene.steps = timeline(run, *RECOVERY, "notified", points=["commit.after"], since=run.crash_ms - 1)
    scene.fact(f"of {sinks} sinks {len(notified)} was notified of checkpoint {final} in generation 1", notified)
    scene.check(
        "the sinks are restored from the final checkpoint",
        [("sink[0]", final), ("sink[1]", final)],
        sorted({(each.actor, each.detail) for each in run.of("restored", generation=2)}),
    )
    scene.check("no row is read again", [], run.rows_written(generation=2))
    _check_finished(scene, run)
    return scene.finish(
        f"generation {run.generations} is restored from the final checkpoint {final}, only to settle it"
    )
