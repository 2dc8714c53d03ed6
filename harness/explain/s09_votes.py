"""S09: a checkpoint is a two-phase commit: a missing vote aborts it for all, a failed commit is repeated."""

from __future__ import annotations

from typing import Final

from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import run_job
from sinkproof.explain.timeline import RECOVERY, timeline

LESSON: Final = (
    "trigger, vote, decision, commit: before the decision a single declined vote aborts the checkpoint for all; after "
    "the decision it is never aborted, and a commit that fails is repeated after a restart until it has happened."
)
PHASES: Final = ["trigger", "snapshot", "acknowledged", "complete", "notified"]


def scenes() -> tuple[Scene, ...]:
    return (_voted(), _declined(), _commit_fails("commit.before"), _commit_fails("commit.after"))


def _voted() -> Scene:
    run = run_job()
    order = run.of(*PHASES, checkpoint_id=1)
    phases = list(dict.fromkeys(each.kind for each in order if not each.actor.startswith("source")))
    committed = run.points("commit.after")[0].at_ms
    scene = Scene("All vote yes")
    scene.ran = "source x2 -> sink x2, two-phase into memory"
    scene.steps = timeline(run, *PHASES[:-1], points=["commit.after"], until=order[-1].at_ms)
    scene.fact(f"phases of checkpoint 1, in order: {', '.join(phases)}", phases)
    scene.check("trigger, pre-commit, vote, decision, commit, in this order", PHASES, phases)
    scene.check("no row of checkpoint 1 was visible when it was decided", [], run.seen.visible_when_deciding[1])
    return scene.finish(
        f"the decision came at {run.of('complete')[0].at_ms:g} ms, the first commit at {committed:g} ms"
    )


def _declined() -> Scene:
    run = run_job(schedule="sink[1].acknowledge.before#2=decline")
    at = run.of("declined")[0].at_ms
    yes = run.actors("acknowledged", checkpoint_id=2)
    following = next(each.detail for each in run.of("complete") if each.at_ms > at)
    kinds = "acknowledged", "declined", "complete", "aborted", "abort notified"
    scene = Scene("One votes no")
    scene.ran = f"the same job, {run.schedule}"
    scene.steps = timeline(run, *kinds, since=at - 8, until=at + 16)
    scene.fact(f"{', '.join(yes)} had voted yes for checkpoint 2, sink[1] voted no", yes)
    scene.check("2 is never complete", False, 2 in [record.checkpoint_id for record in run.seen.decided])
    scene.check(
        "the sinks that voted yes are notified of the abort, too",
        ["sink[0]", "sink[1]"],
        run.actors("abort notified", checkpoint_id=2),
    )
    scene.check("no restart follows", 1, run.generations)
    scene.check_each_row_once(run)
    return scene.finish(
        f"checkpoint 2 is aborted for all; checkpoint {following} covers its rows: offsets {run.offsets(following)}"
    )


def _commit_fails(point: str) -> Scene:
    """After the decision. With `commit.after` the target has committed, and only its answer is lost."""
    run = run_job(schedule=f"sink[0].{point}#1=error")
    visible, restored = run.seen.visible_at_fault[0], run.restored_from()
    again = run.points("commit.after", actor="sink[0]")[1 if point == "commit.after" else 0].at_ms
    _, repeated = run.lost_and_repeated
    scene = Scene("A commit fails" if point == "commit.before" else "A commit succeeds, and its answer is lost")
    scene.ran = f"the same job, {run.schedule}"
    scene.steps = timeline(run, *RECOVERY, "raised", points=["commit.after"], since=run.crash_ms - 3, until=again + 1)
    scene.fact(f"decided by then: {run.complete_at_crash}; visible at the error: {rows_named(visible)}", visible)
    scene.fact(f"sink[0] commits again at {again:g} ms", again)
    scene.check("the job restarts from the decided checkpoint", (2, [1]), (run.generations, restored))
    scene.check("the commit is repeated", True, again > run.crash_ms)
    scene.check_each_row_once(run)
    return scene.finish(
        f"generation 2 starts from checkpoint {restored} with offsets {run.offsets(1)}; in the end "
        f"{len(run.visible)} rows are visible, {len(repeated)} of them too often"
    )
