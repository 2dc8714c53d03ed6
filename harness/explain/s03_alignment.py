"""S03: alignment in one subtask of the engine, driven event by event; then in a running job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.demonstration import Scene, TimelineEntry, row_name, rows_named
from sinkproof.explain.small_jobs import COUNTED, counting, run_job
from sinkproof.explain.timeline import timeline
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.sink_adapters.protocol import Batch

LESSON: Final = (
    "after barrier n a channel's rows wait; when the last barrier has arrived, the snapshot holds exactly the rows "
    "before the barriers, the barrier is forwarded, and the waiting rows are processed before any new ones."
)
PLAN: Final = counting(COUNTED).plan(chaining=False)
SEEDS: Final = range(1, 20)


def scenes() -> tuple[Scene, ...]:
    return (_single_subtask(), _running())


# -- one subtask ----------------------------------------------------------------------------------


def _single_subtask() -> Scene:
    subtask = Subtask(next(plan for plan in PLAN.subtasks if plan.vertex == "count"))
    steps: list[TimelineEntry] = []
    sent: list[str] = []  # rows and barriers that left it, in order
    blocked: list[list[int]] = []
    for number, event in enumerate(_events(), start=1):
        effects = _carried_out(subtask, subtask.on(*event))
        sent += [_payload_named(effect[3]) for effect in effects if effect[0] == "send"]
        blocked.append(sorted(subtask.alignment.blocked))
        texts = [
            ("event", f"{_payload_named(event[2])} on channel {event[1]}"),
            ("channels blocked", str(blocked[-1] or "-")),
        ]
        texts += [("effect", text) for text in map(_effect_named, effects) if text]
        steps += [TimelineEntry(at=number, lane=lane, what=text) for lane, text in texts]
    barrier = sent.index("barrier 1")
    before, after = sent[:barrier], sent[barrier + 1 :]
    scene = Scene("One subtask with two input channels, event by event", unit="event")
    scene.ran = "a count with two input channels, 1 and 2; seven events are passed to it, its effects are carried out"
    scene.steps = tuple(steps)
    scene.check("rows before both barriers are in the snapshot", ["(0,0)", "(1,0)"], before)
    scene.check("the rows behind the early barrier follow, before newer ones", ["(0,1)", "(0,2)", "(1,1)"], after)
    scene.check("channel 1 is blocked from its barrier to the last one", [[], [1], [1], [1], [1], [], []], blocked)
    return scene.finish(f"before the barrier was forwarded: {' '.join(before)}; after it: {' '.join(after)}")


def _events() -> list[tuple[str, int, Any]]:
    rows = {(split, at): COUNTED.batch(split, at) for split in range(2) for at in range(3)}
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
    """As a shell does it: held-back events are processed at the subtask's `drain`."""
    done: list[Any] = []
    for effect in effects:
        done.append(effect)
        if effect[0] == "drain":
            done += [step for held in effect[1] for step in _carried_out(subtask, subtask.on(*held))]
    return done


def _payload_named(payload: Any) -> str:
    """Of an event or of a send: a batch, or the id of a barrier."""
    return " ".join(map(row_name, payload.rows)) if isinstance(payload, Batch) else f"barrier {payload}"


def _effect_named(effect: Any) -> str:
    if effect[0] == "upload":
        return f"snapshot {effect[1]}"
    return f"sends {_payload_named(effect[3])}" if effect[0] == "send" else ""


# -- running --------------------------------------------------------------------------------------


def _run(seed: int) -> RecordedRun:
    return run_job(plan=PLAN, schedule=f"seed={seed} no-fault", checkpoint_interval=9)


def _running() -> Scene:
    """With latencies under which one barrier is early and rows have to wait."""
    run = next(made for made in map(_run, SEEDS) if made.of("drains", actor="count"))
    held = run.of("drains", actor="count")[0]
    held_rows = [row[:2] for row in held.detail]
    barriers = run.of("barrier", actor="count", until=held.at_ms)[-2:]
    lane = [each for each in run.of("forwards", "drains", "sends", actor="count") if each.at_ms >= held.at_ms]
    at = lane.index(held)
    following = [row[:2] for each in lane[at + 1 :] if each.kind == "sends" for row in each.detail[1]]
    checkpoint_id = barriers[-1].detail[1]
    waited = barriers[-1].at_ms - barriers[0].at_ms
    scene = Scene("In a running job: one of two barriers is early")
    scene.ran = f"2 sources -> count -> two-phase sink, nothing chained, checkpoint_interval=9, {run.schedule}"
    scene.steps = timeline(
        run, "barrier", "sends", "snapshot", "forwards", "drains", actors=("count",), until=held.at_ms
    )
    scene.fact(f"the first barrier waited {waited:g} ms for the second", waited)
    scene.fact(f"rows held back meanwhile: {rows_named(held_rows)}", held_rows)
    scene.check(
        "the snapshot of the sink holds exactly the covered rows",
        run.covered(checkpoint_id),
        sorted(run.rows_written(before_snapshot=checkpoint_id)),
    )
    scene.check(
        "the barrier is forwarded right before the held rows",
        ("forwards", checkpoint_id),
        (lane[at - 1].kind, lane[at - 1].detail[1]) if at else ("nothing", 0),
    )
    scene.check("the held rows are processed first", held_rows, following[: len(held_rows)])
    return scene.finish(
        f"snapshot {checkpoint_id} holds the rows that the offsets {run.offsets(checkpoint_id)} cover; then "
        f"the barrier is forwarded, then {rows_named(held_rows)} are processed"
    )
