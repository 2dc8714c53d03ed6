"""S25: rows lie in the target at once; one marker shows them; what nobody will ever show is collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sinkproof.execution.recorded_job import Identity, Run, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, fact, rows_named
from sinkproof.explain.models.masked_worlds import InFiles, InLog, InMemory, InTable, World
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink

LESSON: Final = (
    "nothing is moved and nothing is sent twice: the marker is one fact, written in one step, and readers do the rest. "
    "A checkpoint so becomes visible as a whole, across all subtasks; the price is a reader that honours the marker."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
BEFORE_REVEAL: Final = "sink[0].reveal.before#2=kill-job"


def scenes() -> tuple[Scene, ...]:
    makers: tuple[Callable[[], World], ...] = (InMemory, InFiles, InLog, InTable)
    return tuple(scene for make in makers for scene in (_revealed(make()), _crashed(make())))


def _run(world: World, look: Callable[[], Any], schedule: str) -> Run:
    return play(source_to_sink(SOURCE).plan(), world.sink, read=world.read, look=look, schedule=schedule)


def _revealed(world: World) -> Scene:
    """Every look of the reader also notes what the target holds."""
    held: list[tuple[list[Identity], list[Identity]]] = []

    def read() -> list[Identity]:
        held.append((world.held(), world.read()))
        return held[-1][1]

    run = play(source_to_sink(SOURCE).plan(), world.sink, read=read)
    staged, shown = held[0]
    second = run.stage.visible_when_deciding[run.stage.decided[-1].checkpoint_id]
    reveals = run.points("reveal.after")
    return Scene(
        title=f"In {world.name}: hidden, then shown",
        ran=f"source x2 -> masked sink x2 into {world.name}",
        steps=run.steps("writes", "complete", points=["reveal.after"], until=reveals[1].at_ms),
        facts=(
            fact(f"when checkpoint 1 was decided the target held {rows_named(staged)}", staged),
            fact(f"a reader saw {rows_named(shown)}; at the last decision {rows_named(sorted(second))}", shown),
            fact(f"markers in the end: {', '.join(world.markers())}", world.markers()),
        ),
        outcome=f"{len(run.visible)} rows are visible in the end, hidden ones: {len(world.hidden())}",
        checks=(
            check("rows were in the target before they were shown", (True, []), (bool(staged), shown)),
            check("later a reader sees some", True, bool(second)),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
            check("nothing stays hidden", [], world.hidden()),
        ),
    )


def _crashed(world: World) -> Scene:
    """Checkpoint 2 is complete, and its marker is not written; later rows are staged, too."""
    run = _run(world, lambda: (world.held(), world.hidden()), BEFORE_REVEAL)
    held, hidden = run.stage.looked_when_struck[0]
    shown = sorted(run.stage.visible_when_struck[0])
    crash = run.of("fault")[0].at_ms
    decided = max(each.detail for each in run.of("complete") if each.at_ms <= crash)
    record = next(record for record in run.stage.decided if record.checkpoint_id == decided)
    covered = sorted((split, at) for split, end in run.simulation.covered(record).items() for at in range(end))
    promised, others = sorted(set(covered) - set(shown)), sorted(set(held) - set(covered))
    again = sorted(set(run.rows_written(generation=2)))
    log = isinstance(world, InLog)
    collected = run.points("collect.after")[-1].at_ms
    return Scene(
        title=f"In {world.name}: everybody dies before the marker of checkpoint {decided}",
        ran=f"the same job, {BEFORE_REVEAL}",
        steps=run.steps(
            "complete",
            "generation",
            "restored",
            points=["reveal.after", "collect.after"],
            since=crash - 6,
            until=collected,
        ),
        facts=(
            fact(f"held at the crash, and not shown: {', '.join(hidden)}", hidden),
            fact(
                f"of it promised by checkpoint {decided}: {rows_named(promised)}; never to be shown: "
                f"{rows_named(others)}",
                [promised, others],
            ),
        ),
        outcome=f"the next attempts reveal {rows_named(promised)}; {rows_named(others)} "
        + ("stay in the log, where no marker will ever cover them" if log else "are collected")
        + ", and are written anew",
        checks=(
            check("something was promised, something not", (True, True), (bool(promised), bool(others))),
            check("what was promised is not written again", [], sorted(set(again) & set(covered))),
            check("what was not, is", [], sorted(set(others) - set(again))),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
            check(
                "what nobody will ever see stays in a log" if log else "each row is held once in the end",
                sorted([*run.visible, *(others if log else [])]),
                world.held(),
            ),
        ),
    )
