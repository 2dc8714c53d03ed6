"""S18: the visible rows between acknowledgement and decision, and how a restore treats pending transactions."""

from __future__ import annotations

from typing import Final

from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import MemoryTarget, run_job
from sinkproof.explain.timeline import ENDS, RECOVERY, timeline

LESSON: Final = (
    "pending means: durable, and not visible. Only the restored checkpoint says which of the pending transactions it "
    "covers; those are committed, repeatedly if necessary, and all others are aborted, because their rows are replayed."
)


def scenes() -> tuple[Scene, ...]:
    return (_invisible(), _restored())


def _invisible() -> Scene:
    """No crash; a reader reads when every vote for checkpoint 2 is in."""
    run = run_job()
    second = run.seen.decided[1].checkpoint_id
    visible = sorted(run.seen.visible_when_deciding[second])
    earlier = run.covered(1)
    pending = sorted(set(run.covered(second)) - set(earlier))
    shown = sorted(set(pending) & set(visible))
    until = run.of("complete")[1].at_ms + 5
    scene = Scene(f"All have acknowledged checkpoint {second}, the decision is not durable yet")
    scene.ran = "source x2 -> sink x2, two-phase into memory; a reader reads right before the decision"
    scene.steps = timeline(
        run, "acknowledged", "complete", points=["commit.after"], actors=("coordinator", "sink"), until=until
    )
    scene.fact(f"pre-committed for checkpoint {second}: {rows_named(pending)}", pending)
    scene.fact(f"visible at that moment: {rows_named(visible)}", visible)
    scene.check("rows are pending", True, bool(pending))
    scene.check("no pending row is visible", [], shown)
    scene.check("the visible rows belong to checkpoint 1", [], sorted(set(visible) - set(earlier)))
    return scene.finish(f"of the {len(pending)} pending rows a reader sees {len(shown)}")


def _restored() -> Scene:
    """Checkpoint 2 is complete, no sink is notified; sink[0] has pre-committed more for checkpoint 3."""
    target = MemoryTarget()
    run = run_job(target=target, probe=lambda: sorted(target.store.prepared), schedule="checkpoint.notify#3=kill-job")
    decided = max(run.complete_at_crash)
    pending = run.seen.probed_at_fault[0]
    promised = [name for name in pending if int(name.rpartition("-")[2]) <= decided]
    others = [name for name in pending if name not in promised]
    later = min(one.checkpoint_id for one in run.seen.decided if one.checkpoint_id > decided)
    early = set(run.seen.visible_when_deciding[later])
    committed = sorted(name for name in pending if name in target.store.committed)
    aborted = sorted(set(pending) - set(target.store.committed) - set(target.store.prepared))
    scene = Scene(f"A crash with {len(pending)} transactions pending; checkpoint {decided} is restored")
    scene.ran = f"the same job, {run.schedule}"
    scene.steps = timeline(
        run, "snapshot", *RECOVERY, points=ENDS, actors=("coordinator", "sink"), around_crash=(9, 16)
    )
    scene.fact(f"pending at the crash (sink-subtask-generation-sequence): {', '.join(pending)}", pending)
    scene.fact(f"covered by checkpoint {decided}: {', '.join(promised)}", promised)
    scene.check("some were covered, some were not", (True, True), (bool(promised), bool(others)))
    scene.check("the covered transactions are committed", promised, committed)
    scene.check(
        "their rows are visible before a newer checkpoint is complete", [], sorted(set(run.covered(decided)) - early)
    )
    scene.check("every newer transaction is aborted", others, aborted)
    scene.check_each_row_once(run)
    return scene.finish(
        f"committed by the next attempts: {', '.join(committed)}; aborted: {', '.join(aborted)}; every row is "
        "visible once"
    )
