"""S18: what readers see between an acknowledgement and its decision, and what a restore does with it."""

from __future__ import annotations

from typing import Final

from sinkproof.execution.recorded_job import Identity, Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "pending means: kept, and not shown. Only the restored checkpoint says which of the pending transactions were "
    "promised; those are committed, however often it takes, and all others are aborted, because their rows come again."
)
SOURCE: Final = letters("aebgaebg|gabegabe")


def scenes() -> tuple[Scene, ...]:
    return (_invisible(), _restored())


def _invisible() -> Scene:
    """Kill nobody; look when every vote for checkpoint 2 is in."""
    target = Transactional()
    run = play(source_to_sink(SOURCE).plan(), target.sink, read=target.read)
    second = run.stage.decided[1]
    seen = sorted(run.stage.visible_when_deciding[second.checkpoint_id])
    earlier = _covered(run, 1)
    pending = sorted(set(_covered(run, second.checkpoint_id)) - set(earlier))
    return Scene(
        title=f"All have acknowledged checkpoint {second.checkpoint_id}, the decision is not durable yet",
        ran="source x2 -> sink x2, two-phase into memory; a reader looks right before the decision",
        steps=run.steps(
            "acknowledged",
            "complete",
            points=["commit.after"],
            actors=("coordinator", "sink"),
            until=run.of("complete")[1].at_ms + 5,
        ),
        facts=(
            fact(f"pre-committed for checkpoint {second.checkpoint_id}: {rows_named(pending)}", pending),
            fact(f"visible at that moment: {rows_named(seen)}", seen),
        ),
        outcome=f"of the {len(pending)} pending rows a reader sees {len(set(pending) & set(seen))}",
        checks=(
            check("something is pending", True, bool(pending)),
            check("no pending row is visible", [], sorted(set(pending) & set(seen))),
            check("what is visible belongs to checkpoint 1", [], sorted(set(seen) - set(earlier))),
        ),
    )


def _covered(run: Run, checkpoint_id: int) -> list[Identity]:
    record = next(record for record in run.stage.decided if record.checkpoint_id == checkpoint_id)
    offsets = run.simulation.covered(record)
    return [(split, at) for split, end in sorted(offsets.items()) for at in range(end)]


def _restored() -> Scene:
    """Checkpoint 2 is complete and nobody knows; sink[0] has pre-committed more for checkpoint 3. All die."""
    target = Transactional()
    run = play(
        source_to_sink(SOURCE).plan(),
        target.sink,
        read=target.read,
        look=lambda: sorted(target.store.prepared),
        schedule="checkpoint.notify#3=kill-job",
    )
    crash = run.of("fault")[0].at_ms
    decided = max(each.detail for each in run.of("complete") if each.at_ms <= crash)
    pending = run.stage.looked_when_struck[0]
    promised = [name for name in pending if int(name.rpartition("-")[2]) <= decided]
    others = [name for name in pending if name not in promised]
    later = min(one.checkpoint_id for one in run.stage.decided if one.checkpoint_id > decided)
    early = set(run.stage.visible_when_deciding[later])
    committed = sorted(name for name in pending if name in target.store.committed)
    aborted = sorted(
        name for name in pending if name not in target.store.committed and name not in target.store.prepared
    )
    return Scene(
        title=f"Everybody dies with {len(pending)} transactions pending; checkpoint {decided} is what is restored",
        ran=f"the same job, {run.schedule}",
        steps=run.steps(
            "snapshot",
            "complete",
            "generation",
            "restored",
            points=["commit.after", "abort.after"],
            actors=("coordinator", "sink"),
            since=crash - 9,
            until=crash + 16,
        ),
        facts=(
            fact(f"pending at the crash (sink-subtask-generation-sequence): {', '.join(pending)}", pending),
            fact(f"covered by checkpoint {decided}: {', '.join(promised)}", promised),
        ),
        outcome=f"committed by the next attempts: {', '.join(committed)}; aborted: {', '.join(aborted)}; every row is "
        "visible once",
        checks=(
            check("there were some of either kind", (True, True), (bool(promised), bool(others))),
            check("what the restored checkpoint covers is committed", promised, committed),
            check(
                "its rows are visible before anything new is complete", [], sorted(set(_covered(run, decided)) - early)
            ),
            check("everything newer is aborted", others, aborted),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )
