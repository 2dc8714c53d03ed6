"""Each option is tested for what it does, on a coordinator that receives its votes after a given time."""

from __future__ import annotations

import warnings
from heapq import heappop, heappush
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    CheckpointingMode,
    Cleanup,
    ConfigurationError,
    ConfigurationWarning,
)
from sinkproof.reference_engine.checkpointing.coordinator import Coordinator
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.restart_strategy import NoRestart
from sinkproof.reference_engine.checkpointing.restore_and_rescale import holds_rows


class Clockwork:
    """A coordinator, its timers, and subtasks that all vote `votes_after` ms after a trigger (None: never)."""

    def __init__(self, plan: Any, configuration: CheckpointConfiguration, *, votes_after: int | None) -> None:
        self.coordinator = Coordinator(plan, configuration, NoRestart())
        self.names = plan.names[1:]
        self.votes_after = votes_after
        self.queue: list[tuple[float, int, Any]] = []
        self.triggered: dict[int, float] = {}  # checkpoint id -> when
        self.aborted: dict[int, float] = {}
        self.completed: dict[int, float] = {}
        self.ended: tuple[float, str] | None = None

    def run(self, until: float) -> Clockwork:
        self.post(0, ("start", None, None))
        while self.queue and self.queue[0][0] <= until and self.ended is None:
            now, _, event = heappop(self.queue)
            for effect in self.coordinator.on(now, event):
                getattr(self, effect[0], lambda now, effect: None)(now, effect)
        return self

    def post(self, at: float, event: Any) -> None:
        heappush(self.queue, (at, len(self.queue) + 1000 * len(self.triggered), event))

    def send(self, now: float, effect: Any) -> None:
        _, _, kind, checkpoint_id, _ = effect
        if kind == "trigger" and checkpoint_id not in self.triggered:
            self.triggered[checkpoint_id] = now
            for name in self.names if self.votes_after is not None else ():
                self.post(now + (self.votes_after or 0), ("acknowledged", checkpoint_id, (name, {})))
        elif kind in ("aborted", "complete"):
            {"aborted": self.aborted, "complete": self.completed}[kind].setdefault(checkpoint_id, now)

    def timer(self, now: float, effect: Any) -> None:
        _, delay, kind, a = effect
        self.post(now + delay, (kind, a, None))

    def persist(self, now: float, effect: Any) -> None:
        self.post(now, ("durable", effect[1].checkpoint_id, None))

    def give_up(self, now: float, effect: Any) -> None:
        self.ended = (now, effect[1])


@pytest.fixture
def clockwork(engine: Any) -> Any:
    def start(*, votes_after: int | None = 1, until: float = 100, **options: Any) -> Clockwork:
        configuration = CheckpointConfiguration(**{"tolerable_checkpoint_failure_number": 99, **options})
        return Clockwork(engine.plan(), configuration, votes_after=votes_after).run(until)

    return start


@pytest.mark.row("S10")
def test_checkpoint_interval_is_the_time_between_triggers(clockwork: Any) -> None:
    assert [30, 60, 90] == list(clockwork(checkpoint_interval=30).triggered.values())


@pytest.mark.row("S10")
def test_without_an_interval_only_the_end_of_the_input_takes_a_checkpoint(engine: Any) -> None:
    run = engine.run(checkpoint_interval=None, checkpoint_every_batches=None)
    assert [(1, True)] == [(record.checkpoint_id, record.final) for record in run.witness.decided]
    assert engine.rows_of(engine.input()) == run.counts


@pytest.mark.row("S10")
def test_checkpoint_every_batches_cuts_where_the_sources_are_and_not_when(engine: Any) -> None:
    run = engine.run(checkpoint_every_batches=2)
    covered = [sorted(run.simulation.covered(record).items()) for record in run.witness.decided]
    assert [[(0, 4), (1, 4)], [(0, 8), (1, 8)], [(0, 12), (1, 12)]] == covered


@pytest.mark.row("S10")
def test_max_concurrent_checkpoints_makes_a_trigger_wait_for_the_one_before(clockwork: Any) -> None:
    one = clockwork(checkpoint_interval=10, votes_after=25)
    assert [10, 35, 60, 85] == list(one.triggered.values()), "the next one starts as soon as one has ended"
    two = clockwork(checkpoint_interval=10, votes_after=25, max_concurrent_checkpoints=2)
    assert [10, 20, 35, 45] == list(two.triggered.values())[:4]


@pytest.mark.row("S10")
def test_min_pause_counts_from_the_end_of_one_to_the_trigger_of_the_next(clockwork: Any) -> None:
    paused = clockwork(checkpoint_interval=22, votes_after=5, min_pause_between_checkpoints=22)
    assert [22, 49, 76] == list(paused.triggered.values())


@pytest.mark.row("S10")
def test_an_interval_that_is_shorter_than_the_pause_is_the_pause(clockwork: Any) -> None:
    with pytest.warns(ConfigurationWarning, match="checkpoint_interval=10 is shorter .* is taken as 22"):
        paused = clockwork(checkpoint_interval=10, votes_after=1, min_pause_between_checkpoints=22)
    assert [22, 45, 68, 91] == list(paused.triggered.values())


@pytest.mark.row("S07")
@pytest.mark.row("S10")
def test_checkpoint_timeout_aborts_what_is_pending_for_too_long(clockwork: Any) -> None:
    slow = clockwork(checkpoint_interval=10, votes_after=None, checkpoint_timeout=40)
    assert {1: 50, 2: 90} == slow.aborted
    assert {} == clockwork(checkpoint_interval=10, votes_after=39, checkpoint_timeout=40).aborted


@pytest.mark.row("S10")
def test_tolerable_checkpoint_failure_number_in_a_row_are_tolerated_and_one_more_is_not(clockwork: Any) -> None:
    options = {"checkpoint_interval": 10, "votes_after": None, "checkpoint_timeout": 5, "until": 1000}
    assert (15, "1 checkpoints failed in a row") == clockwork(**options, tolerable_checkpoint_failure_number=0).ended
    assert (35, "3 checkpoints failed in a row") == clockwork(**options, tolerable_checkpoint_failure_number=2).ended


@pytest.mark.row("S10")
def test_a_complete_checkpoint_forgives_the_failures_before_it(engine: Any) -> None:
    coordinator = Coordinator(
        engine.plan(), CheckpointConfiguration(tolerable_checkpoint_failure_number=1), NoRestart()
    )

    def checkpoint(checkpoint_id: int, *, fails: bool) -> list[str]:
        coordinator.on(10 * checkpoint_id, ("tick", None, None))
        if fails:
            return [
                effect[0]
                for effect in coordinator.on(10 * checkpoint_id, ("declined", checkpoint_id, ("sink[0]", "no")))
            ]
        for name in ("source[0]", "source[1]", "sink[0]", "sink[1]"):
            coordinator.on(10 * checkpoint_id, ("acknowledged", checkpoint_id, (name, {})))
        return [effect[0] for effect in coordinator.on(10 * checkpoint_id, ("durable", checkpoint_id, None))]

    for checkpoint_id, fails in enumerate([True, False, True], start=1):
        assert "give_up" not in checkpoint(checkpoint_id, fails=fails)
    assert "give_up" in checkpoint(4, fails=True)


@pytest.mark.row("S10")
@pytest.mark.parametrize(
    ("cleanup", "left"), [(Cleanup.RETAIN_ON_CANCELLATION, [1]), (Cleanup.DELETE_ON_CANCELLATION, [])]
)
def test_cancelling_keeps_or_deletes_the_retained_checkpoint(
    engine: Any, tmp_path: Any, cleanup: Any, left: Any
) -> None:
    storage = FolderCheckpointStorage(tmp_path)
    run = engine.run(before=engine.request(40, "cancel"), storage=storage, externalized_checkpoint_cleanup=cleanup)
    assert (True, [1]) == (run.simulation.finished, [record.checkpoint_id for record in run.witness.decided])
    assert left == storage.complete()
    assert [] == [name for name in storage.folder.glob("chk-*") if name.name != "chk-1"], "what was pending is gone"


@pytest.mark.row("S10")
def test_a_job_that_fails_keeps_its_checkpoint_even_if_cancelling_would_delete_it(engine: Any, tmp_path: Any) -> None:
    storage = FolderCheckpointStorage(tmp_path)
    delete = Cleanup.DELETE_ON_CANCELLATION
    schedule = "sink[0].notify_complete.after#1=kill"
    engine.run(schedule=schedule, storage=storage, restart=NoRestart, externalized_checkpoint_cleanup=delete)
    assert [1] == storage.complete()


class SlowTarget:
    """For StagingSink: what it commits is in doubt for a while."""

    def __init__(self, engine: Any, target: Any, *, doubtful_for: float) -> None:
        self.inner, self.doubtful_for, self.since = engine.StagingSink(target), doubtful_for, 0.0
        self.doubtful: set[int] = set()
        self.snapshot, self.write = self.inner.snapshot, self.inner.write

    def open(self, context: Any) -> None:
        self.context = context
        self.inner.open(context)

    def notify_complete(self, checkpoint_id: int) -> set[int]:
        if not self.doubtful:
            self.since = self.context.clock()
        self.doubtful.add(checkpoint_id)
        return self.doubtful

    def settle(self, now: float) -> set[int]:
        if now - self.since >= self.doubtful_for:
            self.inner.notify_complete(max(self.doubtful, default=0))
            self.doubtful = set()
        return self.doubtful


@pytest.mark.row("S10")
@pytest.mark.parametrize(("doubtful_for", "generations"), [(0.2, 1), (0.4, 2)])
def test_settle_deadline_is_how_long_a_commit_may_be_in_doubt(
    engine: Any, doubtful_for: float, generations: int
) -> None:
    run = engine.run(sink=lambda target: SlowTarget(engine, target, doubtful_for=doubtful_for), settle_deadline=300)
    assert generations == len(run.noted("generation")[:2])
    assert set(engine.rows_of(engine.input())) == set(run.counts)


# -- combinations -------------------------------------------------------------------------------


@pytest.mark.row("S10")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"checkpoint_interval": 0}, "checkpoint_interval=0 is impossible: it must be at least 1"),
        ({"checkpoint_timeout": 0}, "checkpoint_timeout=0 is impossible: it must be at least 1"),
        ({"min_pause_between_checkpoints": -1}, "min_pause_between_checkpoints=-1 is impossible"),
        ({"max_concurrent_checkpoints": 0}, "max_concurrent_checkpoints=0 is impossible"),
        ({"tolerable_checkpoint_failure_number": -1}, "tolerable_checkpoint_failure_number=-1 is impossible"),
        ({"checkpoints_retained": 0}, "checkpoints_retained=0 is impossible"),
        ({"settle_deadline": 0}, "settle_deadline=0 is impossible"),
        ({"aligned_checkpoint_timeout": -1}, "aligned_checkpoint_timeout=-1 is impossible"),
        ({"checkpoint_id_of_ignored_in_flight_data": 0}, "checkpoint_id_of_ignored_in_flight_data=0 is impossible"),
        ({"checkpoint_storage": ""}, "checkpoint_storage is empty"),
        (
            {"unaligned_checkpoints": True, "max_concurrent_checkpoints": 2},
            "unaligned_checkpoints and max_concurrent_checkpoints=2 exclude each other: rows between two barriers",
        ),
        ({"checkpoint_every_batches": 2}, "checkpoint_interval and checkpoint_every_batches exclude each other"),
    ],
)
def test_impossible_options_are_refused_with_the_reason(options: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        CheckpointConfiguration(**options)


@pytest.mark.row("S10")
def test_a_minimum_pause_with_several_at_a_time_is_warned_about_and_means_one_at_a_time(clockwork: Any) -> None:
    with pytest.warns(ConfigurationWarning, match="max_concurrent_checkpoints=3 is taken as 1"):
        doubtful = clockwork(
            checkpoint_interval=10, votes_after=25, max_concurrent_checkpoints=3, min_pause_between_checkpoints=1
        )
    assert [10, 36, 62, 88] == list(doubtful.triggered.values())


@pytest.mark.row("S10")
def test_what_is_not_doubtful_is_not_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CheckpointConfiguration(max_concurrent_checkpoints=3).concurrent == 3
        assert CheckpointConfiguration(min_pause_between_checkpoints=5).concurrent == 1


AT_LEAST_ONCE = CheckpointingMode.AT_LEAST_ONCE


@pytest.mark.row("S10")
@pytest.mark.parametrize(
    ("options", "resolved"),
    [
        ({"unaligned_checkpoints": True, "checkpointing_mode": AT_LEAST_ONCE}, "EXACTLY_ONCE.* taken as off"),
        ({"aligned_checkpoint_timeout": 9}, "timeout=9 has no effect without unaligned_checkpoints"),
        ({"force_unaligned_checkpoints": True}, "has no effect without unaligned_checkpoints"),
        (
            {"unaligned_checkpoints": True, "aligned_checkpoint_timeout": 9, "checkpoint_timeout": 9},
            "is not shorter than checkpoint_timeout=9: a checkpoint is aborted before it turns unaligned",
        ),
        ({"checkpoint_interval": 5, "min_pause_between_checkpoints": 9}, "is shorter .* and is taken as 9"),
    ],
)
def test_doubtful_options_are_warned_about_with_how_they_are_resolved(options: Any, resolved: str) -> None:
    with pytest.warns(ConfigurationWarning, match=resolved) as caught:
        CheckpointConfiguration(**options)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "it names the line that wrote them"


@pytest.mark.row("S10")
@pytest.mark.row("S04")
def test_at_least_once_no_barrier_overtakes_under_any_other_options(engine: Any) -> None:
    options = {"checkpoint_interval": 7, "checkpointing_mode": AT_LEAST_ONCE}
    plain = engine.run(schedule="checkpoint.notify#1=kill-job", **options)
    with pytest.warns(ConfigurationWarning):
        doubtful = engine.run(schedule="checkpoint.notify#1=kill-job", unaligned_checkpoints=True, **options)
    assert plain.simulation.history == doubtful.simulation.history
    assert not any(map(holds_rows, doubtful.witness.decided))
