"""S09: checkpoint = two-phase commit. A missing vote aborts for all; a commit that fails is done again."""

from __future__ import annotations

from typing import Final

from sinkproof.execution.recorded_job import Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "trigger, vote, decision, commit: before the decision any single no aborts for all; after it there is no way back, "
    "and a commit that fails is repeated after a restart until it has happened."
)
SOURCE: Final = letters("aebgaebg|gabegabe")


def scenes() -> tuple[Scene, ...]:
    return (_voted(), _declined(), _commit_fails("commit.before"), _commit_fails("commit.after"))


def _run(schedule: str) -> tuple[Run, Transactional]:
    target = Transactional()
    return play(source_to_sink(SOURCE).plan(), target.sink, read=target.read, schedule=schedule), target


def _voted() -> Scene:
    run, _ = _run("no-fault")
    last = [each for each in run.of("told") if each.detail == 1][-1].at_ms
    order = [each for each in run.of("trigger", "snapshot", "acknowledged", "complete", "told") if each.detail == 1]
    phases = list(dict.fromkeys(each.what for each in order if not each.actor.startswith("source")))
    commits = run.points("commit.after")
    return Scene(
        title="All vote yes",
        ran="source x2 -> sink x2, two-phase into memory",
        steps=run.steps("trigger", "snapshot", "acknowledged", "complete", points=["commit.after"], until=last),
        facts=(fact(f"phases of checkpoint 1, in order: {', '.join(phases)}", phases),),
        outcome=f"the decision came at {run.of('complete')[0].at_ms:g} ms, the first commit at {commits[0].at_ms:g} ms",
        checks=(
            check(
                "trigger, pre-commit, vote, decision, commit, in this order",
                ["trigger", "snapshot", "acknowledged", "complete", "told"],
                phases,
            ),
            check(
                "nothing of checkpoint 1 was visible when it was decided",
                [],
                run.stage.visible_when_deciding[1],
            ),
        ),
    )


def _declined() -> Scene:
    run, _ = _run("sink[1].acknowledge.before#2=decline")
    at = run.of("declined")[0].at_ms
    yes = sorted({each.actor for each in run.of("acknowledged") if each.detail == 2})
    told = sorted({each.actor for each in run.of("told aborted") if each.detail == 2})
    following = next(each.detail for each in run.of("complete") if each.at_ms > at)
    offsets = {record.checkpoint_id: run.simulation.covered(record) for record in run.stage.decided}
    lost, extra = once_each(SOURCE, run.visible)
    return Scene(
        title="One votes no",
        ran=f"the same job, {run.schedule}",
        steps=run.steps("acknowledged", "declined", "complete", "aborted", "told aborted", since=at - 8, until=at + 16),
        facts=(fact(f"{', '.join(yes)} had voted yes for checkpoint 2, sink[1] voted no", yes),),
        outcome=f"checkpoint 2 is aborted for all; checkpoint {following} brings its rows: offsets "
        f"{offsets[following]}",
        checks=(
            check("2 is never complete", False, 2 in offsets),
            check("those who voted yes are told, too", ["sink[0]", "sink[1]"], told),
            check("nobody restarts", 1, run.generations),
            check("nothing is lost or repeated", ([], []), (lost, extra)),
        ),
    )


def _commit_fails(point: str) -> Scene:
    """After the decision. `commit.after`: it has happened, and only the answer is lost."""
    run, _ = _run(f"sink[0].{point}#1=error")
    crash, outcome = run.of("fault")[0], run.stage.visible_when_struck[0]
    decided = [each.detail for each in run.of("complete") if each.at_ms <= crash.at_ms]
    restored = sorted({each.detail for each in run.of("restored") if each.generation == 2})
    covered = run.simulation.covered(run.stage.decided[0])
    again = run.points("commit.after", actor="sink[0]")[1 if point == "commit.after" else 0]
    lost, extra = once_each(SOURCE, run.visible)
    return Scene(
        title="A commit fails" if point == "commit.before" else "A commit happens, and its answer is lost",
        ran=f"the same job, {run.schedule}",
        steps=run.steps(
            "complete",
            "raised",
            "generation",
            "restored",
            points=["commit.after"],
            since=crash.at_ms - 3,
            until=again.at_ms + 1,
        ),
        facts=(
            fact(f"decided by then: {decided}; visible at the error: {rows_named(outcome)}", outcome),
            fact(f"sink[0] asks for the commit again at {again.at_ms:g} ms", again.at_ms),
        ),
        outcome=f"generation 2 starts from checkpoint {restored} with offsets {covered}; in the end {len(run.visible)} "
        f"rows are visible, {len(extra)} of them too often",
        checks=(
            check("the job restarts from the decided checkpoint", (2, [1]), (run.generations, restored)),
            check("the commit is asked for again", True, again.at_ms > crash.at_ms),
            check("nothing is lost or repeated", ([], []), (lost, extra)),
        ),
    )
