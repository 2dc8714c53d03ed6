"""S03: the engine's own subtask, fed by hand; then the same in a running job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sinkproof.execution.recorded_job import Run, letters, play
from sinkproof.explain.demonstration import Scene, Step, check, fact, row_name, rows_named
from sinkproof.explain.small_jobs import Transactional, counting
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.sink_adapters.protocol import Batch

LESSON: Final = (
    "after barrier n a channel's rows wait; when the last barrier has come, the snapshot holds exactly what lies "
    "before the barriers, the barrier goes on, and the waiting rows are processed before any new ones."
)
SOURCE: Final = letters("aabaab|babaab")
PLAN: Final = counting(SOURCE).plan(chaining=False)
SEEDS: Final = range(1, 20)


def scenes() -> tuple[Scene, ...]:
    return (_by_hand(), _running())


# -- by hand --------------------------------------------------------------------------------------


def _by_hand() -> Scene:
    subtask = Subtask(next(plan for plan in PLAN.subtasks if plan.vertex == "count"))
    steps: list[Step] = []
    sent: list[Any] = []  # rows and barriers that left it, in order
    blocked: list[list[int]] = []
    for number, event in enumerate(_events(), start=1):
        effects = _carried_out(subtask, subtask.on(*event))
        sent += [item for effect in effects for item in _leaving(effect)]
        blocked.append(sorted(subtask.alignment.blocked))
        steps.append(Step(at=number, lane="count[0] is given", what=_event_said(event)))
        steps.append(Step(at=number, lane="channels blocked", what=str(blocked[-1] or "-")))
        steps += [Step(at=number, lane="it does", what=said) for said in map(_effect_said, effects) if said]
    barrier = sent.index("barrier 1")
    return Scene(
        title="By hand: one subtask, two channels",
        ran="a count with two input channels, 1 and 2; its events one by one, its effects as they come",
        steps=tuple(steps),
        unit="event",
        outcome=f"before the barrier went on: {' '.join(sent[:barrier])}; after it: {' '.join(sent[barrier + 1 :])}",
        checks=(
            check("rows before both barriers are in the snapshot", ["(0,0)", "(1,0)"], sent[:barrier]),
            check(
                "the rows behind the early barrier follow, before newer ones",
                ["(0,1)", "(0,2)", "(1,1)"],
                sent[barrier + 1 :],
            ),
            check("channel 1 is blocked from its barrier to the last one", [[], [1], [1], [1], [1], [], []], blocked),
        ),
    )


def _events() -> list[tuple[str, int, Any]]:
    rows = {(split, at): SOURCE.batch(split, at) for split in range(2) for at in range(3)}
    return [
        ("rows", 1, rows[0, 0]),
        ("barrier", 1, 1),
        ("rows", 1, rows[0, 1]),
        ("rows", 2, rows[1, 0]),
        ("rows", 1, rows[0, 2]),
        ("barrier", 2, 1),
        ("rows", 2, rows[1, 1]),
    ]


def _carried_out(subtask: Subtask, effects: Sequence[Any]) -> list[Any]:
    """As a shell does it: held-back events are processed where the subtask says so."""
    done: list[Any] = []
    for effect in effects:
        done.append(effect)
        if effect[0] == "drain":
            done += [step for held in effect[1] for step in _carried_out(subtask, subtask.on(*held))]
    return done


def _leaving(effect: Any) -> list[str]:
    if effect[0] != "send":
        return []
    _, _, kind, payload = effect
    return [row_name(row) for row in payload.rows] if kind == "rows" else [f"barrier {payload}"]


def _event_said(event: tuple[str, int, Any]) -> str:
    _, channel, payload = event
    what = " ".join(map(row_name, payload.rows)) if isinstance(payload, Batch) else f"barrier {payload}"
    return f"{what} on channel {channel}"


def _effect_said(effect: Any) -> str:
    if effect[0] == "upload":
        return f"snapshot {effect[1]}"
    return f"sends {' '.join(_leaving(effect))}" if effect[0] == "send" else ""


# -- running --------------------------------------------------------------------------------------


def _run(seed: int) -> tuple[Run, Transactional]:
    target = Transactional()
    run = play(PLAN, target.sink, read=target.read, schedule=f"seed={seed} no-fault", checkpoint_interval=9)
    return run, target


def _running() -> Scene:
    """With latencies where one barrier comes early, and rows have to wait."""
    run, _ = next(made for made in map(_run, SEEDS) if made[0].of("drains", actor="count"))
    held = run.of("drains", actor="count")[0]
    barriers = [each for each in run.of("barrier", actor="count") if each.at_ms <= held.at_ms][-2:]
    lane = [each for each in run.of("forwards", "drains", "sends", actor="count") if each.at_ms >= held.at_ms]
    at = lane.index(held)
    following = [row for each in lane[at + 1 :] if each.what == "sends" for row in each.detail[1]]
    checkpoint_id = barriers[-1].detail[1]
    record = next(record for record in run.stage.decided if record.checkpoint_id == checkpoint_id)
    offsets = run.simulation.covered(record)
    covered = sorted((split, offset) for split, end in offsets.items() for offset in range(end))
    waited = barriers[-1].at_ms - barriers[0].at_ms
    return Scene(
        title="Running: one of two barriers comes early",
        ran=f"2 sources -> count -> two-phase sink, nothing chained, checkpoint_interval=9, {run.schedule}",
        steps=run.steps("barrier", "sends", "snapshot", "forwards", "drains", actors=("count",), until=held.at_ms),
        facts=(
            fact(f"the first barrier waited {waited:g} ms for the second", waited),
            fact(f"held back meanwhile: {rows_named(held.detail)}", [row[:2] for row in held.detail]),
        ),
        outcome=f"snapshot {checkpoint_id} holds what the offsets {offsets} cover; then the barrier went on, then "
        f"{rows_named(held.detail)}",
        checks=(
            check(
                "the snapshot of the sink holds exactly the covered rows",
                covered,
                sorted(run.rows_written(before_snapshot=checkpoint_id)),
            ),
            check(
                "the barrier goes on right before the held rows",
                ("forwards", checkpoint_id),
                (lane[at - 1].what, lane[at - 1].detail[1]) if at else ("nothing", 0),
            ),
            check(
                "the held rows are processed first",
                [row[:2] for row in held.detail],
                [row[:2] for row in following[: len(held.detail)]],
            ),
        ),
    )
