"""S15: a slow sink behind bounded buffers with credits, compared with other ways to connect it."""

from __future__ import annotations

from typing import Final

from sinkproof.execution.recorded_job import RecordedRun, letters
from sinkproof.explain.demonstration import Scene
from sinkproof.explain.models.flow_control_variants import TICKS, TIMES_SLOWER, connections, measure
from sinkproof.explain.models.memory_budget import BudgetError, budget_of, buffers_of
from sinkproof.explain.small_jobs import refusal, run_job
from sinkproof.explain.timeline import timeline
from sinkproof.reference_engine.dataflow.flow_control import ROWS, Buffers, Gate, Item, Outlet
from sinkproof.reference_engine.dataflow.job_graph import Plan, source_to_sink

LESSON: Final = (
    "a credit is a free buffer: a sender without credit does not send, so memory is bounded by what was reserved, and "
    "a full receiver stops its own senders, up to the source, and no others."
)
UNBOUNDED: Final = 10**9
SLOW_MS: Final = 250  # per batch in the sink; the source produces one every 2 to 3 ms
LENGTHS: Final = (20, 40)  # rows of each split
BUFFERS: Final = Buffers(exclusive=2, floating=2, queued=2, work_ms={"sink": SLOW_MS})


def scenes() -> tuple[Scene, ...]:
    return (_credits(), _flat(), _variants(), _budget())


# -- credits --------------------------------------------------------------------------------------


def _credits() -> Scene:
    """Two senders and one receiver, without a job."""
    gate, outlets = Gate([1, 2], BUFFERS), {1: Outlet(BUFFERS.exclusive), 2: Outlet(BUFFERS.exclusive)}

    def deliver(items: list[Item]) -> list[tuple[int, int]]:
        return [grant for item in items for grant in gate.arrive(1, item)]

    def grant(grants: list[tuple[int, int]]) -> list[Item]:
        return [item for channel, credits_ in grants for item in outlets[channel].grant(credits_)]

    first = [item for number in range(7) for item in outlets[1].put(ROWS, number)]
    waiting, unannounced = outlets[1].backlog, deliver(first)
    _, _, returned = gate.take(1)
    announcing = grant(returned)
    lent = deliver(announcing)
    borrowed = grant(lent)
    deliver(borrowed)
    blocked, neighbour = outlets[1].put(ROWS, 7), outlets[2].put(ROWS, 0)
    scene = Scene("Credits: the receiver grants, the sender announces its backlog")
    scene.ran = (
        f"two channels with {BUFFERS.exclusive} exclusive buffers each, {BUFFERS.floating} floating buffers; 7 "
        "batches on channel 1"
    )
    scene.fact(f"sent for its own credits: {len(first)}; waiting at the sender: {waiting}", [len(first), waiting])
    scene.fact(
        f"one is processed: {_sum(returned)} credit comes back, for which {len(announcing)} is sent, "
        f"announcing {announcing[0].backlog} more",
        [_sum(returned), announcing[0].backlog],
    )
    scene.fact(f"so the receiver lends {_sum(lent)} buffers, and {len(borrowed)} more are sent", _sum(lent))
    scene.fact(f"full buffers then: {gate.held}; an eighth batch: {len(blocked)} sent", gate.held)
    scene.fact(f"channel 2, meanwhile, sends {len(neighbour)}", len(neighbour))
    scene.check("as many batches are sent as there are credits", BUFFERS.exclusive, len(first))
    scene.check("no buffer is lent to a channel without backlog", [], unannounced)
    scene.check("the backlog is announced", waiting - 1, announcing[0].backlog)
    scene.check("all floating buffers are lent", BUFFERS.floating, _sum(lent))
    scene.check("credit 0 stops the channel", 0, len(blocked))
    scene.check("and no other channel", 1, len(neighbour))
    scene.check("never more batches than buffers", True, gate.held <= BUFFERS.exclusive + BUFFERS.floating)
    return scene.finish(
        f"channel 1 has {outlets[1].credits} credits and {outlets[1].backlog} batches waiting; channel 2 has "
        f"{outlets[2].credits} credit left"
    )


def _sum(grants: list[tuple[int, int]]) -> int:
    return sum(credits_ for _, credits_ in grants)


# -- a slow sink ----------------------------------------------------------------------------------


def _plan(rows: int) -> Plan:
    return source_to_sink(letters(("ae" * rows)[:rows] + "|" + ("gb" * rows)[:rows]), sinks=1).plan()


def _run(rows: int, buffers: Buffers) -> RecordedRun:
    return run_job(plan=_plan(rows), buffers=buffers, checkpoint_interval=2_000, max_concurrent_checkpoints=1)


def _peak(run: RecordedRun) -> int:
    """The most batches in all buffers of the job."""
    return sum({each.actor: each.detail for each in run.of("buffered")}.values())


def _flat() -> Scene:
    """The sink takes a hundred times longer per batch than a source."""
    free = Buffers(exclusive=UNBOUNDED, queued=UNBOUNDED, work_ms={"sink": SLOW_MS})
    bounded, unbounded = [_run(rows, BUFFERS) for rows in LENGTHS], [_run(rows, free) for rows in LENGTHS]
    flat, growing = list(map(_peak, bounded)), list(map(_peak, unbounded))
    last = bounded[-1]
    stops = last.of("stalled")
    scene = Scene("A sink a hundred times slower than its source")
    scene.ran = (
        f"2 sources -> two-phase sink that takes {SLOW_MS} ms per batch; {LENGTHS[0]} and {LENGTHS[1]} rows in "
        "each split; bounded buffers with credits, and buffers without a bound"
    )
    scene.steps = timeline(last, "sends", "writes", "stalled", "resumed", until=stops[1].at_ms + 400)[:24]
    scene.fact(f"with credits at most {flat[0]} and {flat[1]} batches are buffered", flat)
    scene.fact(f"without a bound {growing[0]} and {growing[1]}", growing)
    scene.fact(
        f"the sources stopped {len(stops)} times, first at {stops[0].at_ms:g} ms, and resumed each time", len(stops)
    )
    scene.check("memory stays flat with credits", *flat)
    scene.check("without, it grows with the input", True, growing[1] > 1.8 * growing[0])
    scene.check("the stop reaches every source", {"source[0]", "source[1]"}, {each.actor for each in stops})
    scene.check("each of them resumes", len(stops), len(last.of("resumed")))
    scene.check_each_row_once(last)
    return scene.finish(
        f"twice the input: {flat[1] - flat[0]} batches more with credits, {growing[1] - growing[0]} more without"
    )


# -- without credits, and where credits come from -------------------------------------------------


def _variants() -> Scene:
    """The same traffic for a fast and a slow receiver, with a barrier in the middle."""
    measured = {name: measure(one) for name, one in connections().items()}
    high, low = measured["static rate, guessed too high"], measured["static rate, guessed too low"]
    free, shared, credits_ = (measured[name] for name in ("unbounded", "shared connection", "credits"))
    scene = Scene("The same traffic without credits")
    scene.ran = (
        f"one sender, a receiver that takes a batch in each tick and one that takes {TIMES_SLOWER} times longer; "
        f"{len(measured)} ways to connect them, {TICKS} ticks each"
    )
    for name, one in measured.items():
        scene.fact(
            f"{name}: at most {one.buffered_most} batches buffered; the fast receiver got {one.taken_fast}, the "
            f"slow one {one.taken_slow}; the barrier came after {_ticks(one.barrier_ticks_fast)} and "
            f"{_ticks(one.barrier_ticks_slow)}",
            [one.buffered_most, one.taken_fast, one.taken_slow, one.barrier_ticks_fast, one.barrier_ticks_slow],
        )
    scene.check("unbounded: memory grows until the end", free.buffered_most, free.buffered_last)
    scene.check("rate too high: memory grows, too", True, high.buffered_last > 10 * credits_.buffered_most)
    scene.check("rate too low: the fast receiver is idle", True, low.taken_fast < credits_.taken_fast / 100)
    scene.check(
        "shared: the fast receiver is as slow as the slow one", True, shared.taken_fast < 2 * shared.taken_slow + 10
    )
    scene.check("shared: its barrier waits, too", True, (shared.barrier_ticks_fast or 10**9) > 100)
    scene.check("credits: the fast receiver gets everything", free.taken_fast, credits_.taken_fast)
    scene.check("credits: its barrier does not wait", 0, credits_.barrier_ticks_fast)
    scene.check("credits: memory is flat", True, credits_.buffered_most < 20)
    return scene.finish(
        f"credits hold {credits_.buffered_most} batches and give the fast receiver {credits_.taken_fast}; "
        f"unbounded holds {free.buffered_most}; a shared connection gives the fast one {shared.taken_fast}"
    )


def _ticks(ticks: int | None) -> str:
    return "never" if ticks is None else f"{ticks} ticks"


def _budget() -> Scene:
    """A worker's memory, part by part, and the credits of one subtask that follow from it."""
    budgets = {(mib, slots): budget_of(mib, slots=slots) for mib, slots in ((1728.0, 1), (1728.0, 4), (4096.0, 4))}
    names = ("metaspace", "overhead", "framework", "network", "managed", "user")
    parts = {key: {name: getattr(budget, name) for name in names} for key, budget in budgets.items()}
    subtask = next(one for one in _plan(2).subtasks if one.sink)
    credits_ = {key: buffers_of(budget, subtask).exclusive for key, budget in budgets.items()}
    refused = refusal(BudgetError, lambda: budget_of(600.0))
    default = budgets[1728.0, 1]
    scene = Scene("Where credits come from: the memory of a slot")
    scene.ran = "workers of 1728 MiB with 1 and 4 slots, and of 4096 MiB with 4; one of 600 MiB"
    for (mib, slots), budget in budgets.items():
        scene.fact(
            f"{mib:g} MiB: {' + '.join(f'{name} {part:g}' for name, part in parts[mib, slots].items())}; "
            f"no slot may use {budget.reserve:g}; each of {slots} slots has network "
            f"{budget.slot['network']:g}, managed {budget.slot['managed']:g}, user {budget.slot['user']:g}: "
            f"{budget.segments} buffers, that is {credits_[mib, slots]} credits for each of "
            f"{len(subtask.inputs)} channels of {subtask.name}",
            [*parts[mib, slots].values(), budget.segments, credits_[mib, slots]],
        )
    scene.fact(f"600 MiB: {refused}", refused)
    scene.check(
        "the parts add up to the process",
        [mib for mib, _ in budgets],
        [round(sum(of.values()), 6) for of in parts.values()],
    )
    scene.check("four slots share the buffers of one", default.segments // 4, budgets[1728.0, 4].segments)
    scene.check(
        "the sums of Flink's documentation, for its default worker",
        [256.0, 192.0, 256.0, 128.0, 512.0, 384.0],
        [round(part, 1) for part in parts[1728.0, 1].values()],
    )
    scene.check(
        "credits never exceed the buffers",
        True,
        all(credits_[key] * len(subtask.inputs) <= budget.segments for key, budget in budgets.items()),
    )
    scene.check("a worker that is too small is refused", True, bool(refused))
    return scene.finish(
        f"reserve {default.reserve:g} + network {default.network:g} + managed {default.managed:g} + user "
        f"{default.user:g} = {default.reserve + default.network + default.managed + default.user:g} MiB"
    )
