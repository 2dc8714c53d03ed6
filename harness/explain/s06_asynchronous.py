"""S06: rows are processed while a snapshot is persisted; and a crash right before and right after the decision."""

from __future__ import annotations

from typing import Final

from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import run_job
from sinkproof.explain.timeline import RECOVERY, timeline

LESSON: Final = (
    "the barrier is forwarded when the state is captured, the vote follows when it is persisted, and only a durable "
    "decision makes the checkpoint complete: until then a crash falls back to the one before it."
)
SLOW: Final = "sink[1]"  # its snapshots take longest to persist


def scenes() -> tuple[Scene, ...]:
    return (_writing_on(), _crashed("before"), _crashed("after"))


def _writing_on() -> Scene:
    run = run_job()
    lane = run.of("snapshot", "writes", "acknowledged", actor=SLOW)
    ends = [lane.index(each) for each in lane if each.kind != "writes" and each.detail == 1]
    snapshot, vote = (lane[at].at_ms for at in ends)
    written = [row[:2] for each in lane[ends[0] : ends[1]] if each.kind == "writes" for row in each.detail]
    votes = {each.actor: each.at_ms for each in run.of("acknowledged", checkpoint_id=1)}
    complete, notified = (run.of(kind, checkpoint_id=1)[0].at_ms for kind in ("complete", "notified"))
    kinds = "trigger", "snapshot", "writes", "acknowledged", "complete", "notified"
    scene = Scene(f"{SLOW} continues to write while its snapshot is persisted")
    scene.ran = "source x2 -> sink x2 by key, two-phase into memory, a checkpoint every 2 batches"
    scene.steps = timeline(run, *kinds, until=notified)
    scene.fact(f"{SLOW} captured its state at {snapshot:g} ms and voted at {vote:g} ms", [snapshot, vote])
    scene.fact(f"in between it wrote {rows_named(written)}", written)
    scene.fact(f"votes for checkpoint 1 came at {sorted(votes.values())} ms", votes)
    scene.check("rows are written between snapshot and vote", True, bool(written))
    scene.check("every subtask has voted", 4, len(votes))
    scene.check("complete after the last vote", True, max(votes.values()) < complete)
    scene.check("sinks are notified after it is complete", True, complete < notified)
    return scene.finish(
        f"complete at {complete:g} ms, after the last of {len(votes)} votes; the first sink is notified at "
        f"{notified:g} ms"
    )


def _crashed(when: str) -> Scene:
    """All votes for checkpoint 2 are in; the whole job is killed around the moment of the durable decision."""
    run = run_job(schedule=f"checkpoint.persist.{when}#2=kill-job")
    votes = run.actors("acknowledged", checkpoint_id=2, until=run.crash_ms)
    restored = run.restored_from()
    scene = Scene(f"A crash of the whole job right {when} the decision for checkpoint 2")
    scene.ran = f"the same job, {run.schedule}"
    scene.steps = timeline(run, "acknowledged", *RECOVERY, around_crash=(8, 16))
    scene.fact(f"at the crash {len(votes)} subtasks had acknowledged checkpoint 2", votes)
    scene.check("every vote was in", 4, len(votes))
    scene.check(
        "restored from checkpoint 2" if when == "after" else "without a decision it is not complete",
        [2 if when == "after" else 1],
        restored,
    )
    scene.check_each_row_once(run)
    return scene.finish(
        f"generation 2 is restored from checkpoint {', '.join(map(str, restored))}; in the end "
        f"{len(run.visible)} rows are visible, each once"
    )
