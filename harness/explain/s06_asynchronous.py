"""S06: rows go on while a snapshot is persisted; and a crash right before and right after the decision."""

from __future__ import annotations

from typing import Final

from sinkproof.execution.recorded_job import Happening, Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "the barrier goes on when the state is captured, the vote follows when it is persisted, and only a durable "
    "decision makes the checkpoint complete: until then a crash falls back to the one before it."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
SLOW: Final = "sink[1]"  # its snapshots take longest to persist


def scenes() -> tuple[Scene, ...]:
    return (_going_on(), _crashed("before"), _crashed("after"))


def _run(schedule: str) -> tuple[Run, Transactional]:
    target = Transactional()
    plan = source_to_sink(SOURCE).plan()
    return play(plan, target.sink, read=target.read, schedule=schedule), target


def _first(happened: list[Happening], detail: object) -> float:
    return next(each.at_ms for each in happened if each.detail == detail)


def _going_on() -> Scene:
    run, _ = _run("no-fault")
    snapshot, vote = (_first(run.of(what, actor=SLOW), 1) for what in ("snapshot", "acknowledged"))
    lane = run.of("snapshot", "writes", "acknowledged", actor=SLOW)
    ends = [lane.index(each) for each in lane if each.what != "writes" and each.detail == 1]
    written = [row for each in lane[ends[0] : ends[1]] if each.what == "writes" for row in each.detail]
    votes = {each.actor: each.at_ms for each in run.of("acknowledged") if each.detail == 1}
    complete, told = _first(run.of("complete"), 1), _first(run.of("told"), 1)
    return Scene(
        title=f"{SLOW} goes on writing while its snapshot is persisted",
        ran="source x2 -> sink x2 by key, two-phase into memory, a checkpoint every 2 batches",
        steps=run.steps("trigger", "snapshot", "writes", "acknowledged", "complete", "told", until=told),
        facts=(
            fact(f"{SLOW} captured its state at {snapshot:g} ms and voted at {vote:g} ms", [snapshot, vote]),
            fact(f"in between it wrote {rows_named(written)}", [row[:2] for row in written]),
            fact(f"votes for checkpoint 1 came at {sorted(votes.values())} ms", votes),
        ),
        outcome=f"complete at {complete:g} ms, after the last of {len(votes)} votes; told at {told:g} ms",
        checks=(
            check("rows are written between snapshot and vote", True, bool(written)),
            check("every subtask has voted", 4, len(votes)),
            check("complete after the last vote", True, max(votes.values()) < complete),
            check("told after it is complete", True, complete < told),
        ),
    )


def _crashed(when: str) -> Scene:
    """All votes for checkpoint 2 are in; the whole job dies around the moment in which the decision becomes durable."""
    run, _ = _run(f"checkpoint.persist.{when}#2=kill-job")
    crash = run.of("fault")[0].at_ms
    votes = sorted({each.actor for each in run.of("acknowledged") if each.detail == 2 and each.at_ms <= crash})
    restored = sorted({each.detail for each in run.of("restored") if each.generation == 2})
    lost, extra = once_each(SOURCE, run.visible)
    return Scene(
        title=f"A crash of the whole job right {when} the decision for checkpoint 2",
        ran=f"the same job, {run.schedule}",
        steps=run.steps("acknowledged", "complete", "generation", "restored", since=crash - 8, until=crash + 16),
        facts=(fact(f"by the crash {len(votes)} subtasks had acknowledged checkpoint 2", votes),),
        outcome=f"generation 2 is restored from checkpoint {', '.join(map(str, restored))}; in the end "
        f"{len(run.visible)} rows are visible, each once",
        checks=(
            check("every vote was in", 4, len(votes)),
            check(
                "restored from checkpoint 2" if when == "after" else "without a decision it is not complete",
                [2 if when == "after" else 1],
                restored,
            ),
            check("nothing is lost or repeated", ([], []), (lost, extra)),
        ),
    )
