"""The coordinator alone: events in, effects out. Two sources (1, 2) and two sinks (3, 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.coordinator import (
    TRANSITIONS,
    CheckpointEvent,
    CheckpointPhase,
    CheckpointRecord,
    Coordinator,
)
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay, NoRestart

NAMES = ("source[0]", "source[1]", "sink[0]", "sink[1]")
Make = Callable[..., Coordinator]


@pytest.fixture
def make(engine: Any) -> Make:
    def coordinator(*, record: CheckpointRecord | None = None, restart: Any = None, **options: Any) -> Coordinator:
        configuration = CheckpointConfiguration(**{"tolerable_checkpoint_failure_number": 5, **options})
        return Coordinator(engine.plan(), configuration, restart or FixedDelay(attempts=3), record=record)

    return coordinator


def vote(coordinator: Coordinator, checkpoint_id: int, *names: str) -> list[Any]:
    """The effects of the last vote."""
    effects: list[Any] = []
    for name in names or NAMES:
        effects = coordinator.on(0, ("acknowledged", checkpoint_id, (name, {"of": name})))
    return effects


def sent(effects: list[Any], kind: str) -> list[tuple[int, Any]]:
    """(subtask, checkpoint id) of every message of this kind."""
    return [(effect[1], effect[3]) for effect in effects if effect[0] == "send" and effect[2] == kind]


def of_kind(effects: list[Any], kind: str) -> list[Any]:
    return [effect for effect in effects if effect[0] == kind]


def complete(coordinator: Coordinator, checkpoint_id: int) -> list[Any]:
    vote(coordinator, checkpoint_id)
    return coordinator.on(0, ("durable", checkpoint_id, None))


@pytest.mark.row("S02")
def test_a_checkpoint_is_triggered_at_every_source_and_only_there(make: Make) -> None:
    coordinator = make(max_concurrent_checkpoints=2)
    assert [(1, 1), (2, 1)] == sent(coordinator.on(10, ("tick", None, None)), "trigger")
    assert [(1, 2), (2, 2)] == sent(coordinator.on(20, ("tick", None, None)), "trigger")


@pytest.mark.row("S02")
def test_ids_go_on_after_the_restored_checkpoint(make: Make) -> None:
    record = CheckpointRecord(7, False, {}, {})
    assert [(1, 8), (2, 8)] == sent(make(record=record).on(10, ("tick", None, None)), "trigger")


@pytest.mark.row("S02")
def test_ids_between_two_that_come_after_gaps_count_as_used(make: Make) -> None:
    options = {"checkpoint_ids_after_gaps": (1, 8, 20), "max_concurrent_checkpoints": 4}
    triggered = [make(**options).on(10, ("tick", None, None))]
    coordinator = make(record=CheckpointRecord(7, False, {}, {}), **options)
    triggered += [coordinator.on(time, ("tick", None, None)) for time in (10, 20, 30)]
    assert [1, 8, 20, 21] == [sent(effects, "trigger")[0][1] for effects in triggered]


@pytest.mark.row("S06")
def test_three_votes_of_four_decide_nothing(make: Make) -> None:
    coordinator = make()
    coordinator.on(10, ("tick", None, None))
    assert [] == vote(coordinator, 1, *NAMES[:3], NAMES[0], NAMES[1])  # some of them twice
    assert [
        ("persist", CheckpointRecord(1, False, {name: {"of": name} for name in NAMES}, {"source": 2, "sink": 2}))
    ] == (vote(coordinator, 1, NAMES[3]))


@pytest.mark.row("S06")
@pytest.mark.row("S09")
def test_no_notification_is_sent_before_the_decision_is_durable(make: Make) -> None:
    coordinator = make()
    coordinator.on(10, ("tick", None, None))
    assert ["persist"] == [effect[0] for effect in vote(coordinator, 1)]
    assert [(3, 1), (4, 1)] == sent(coordinator.on(20, ("durable", 1, None)), "complete")


@pytest.mark.row("S09")
def test_one_declined_vote_aborts_the_checkpoint_for_all(make: Make) -> None:
    coordinator = make()
    coordinator.on(10, ("tick", None, None))
    vote(coordinator, 1, *NAMES[:3])
    effects = coordinator.on(12, ("declined", 1, ("sink[1]", "no")))
    assert [(1, 1), (2, 1), (3, 1), (4, 1)] == sent(effects, "aborted")
    assert [("discard", 1)] == of_kind(effects, "discard")
    assert [] == vote(coordinator, 1), "late votes change nothing"


@pytest.mark.row("S09")
def test_a_missing_vote_aborts_it_when_the_time_is_up(make: Make) -> None:
    coordinator = make(checkpoint_timeout=50)
    effects = coordinator.on(10, ("tick", None, None))
    assert ("timer", 50, "expired", 1) in effects
    vote(coordinator, 1, *NAMES[:3])
    assert [(1, 1), (2, 1), (3, 1), (4, 1)] == sent(coordinator.on(60, ("expired", 1, None)), "aborted")


@pytest.mark.row("S09")
@pytest.mark.parametrize("late", [("expired", 1, None), ("declined", 1, ("sink[0]", "no"))])
def test_once_all_have_voted_only_the_storage_can_abort(make: Make, late: Any) -> None:
    coordinator = make()
    coordinator.on(10, ("tick", None, None))
    vote(coordinator, 1)
    assert [] == coordinator.on(20, late)
    assert [(3, 1), (4, 1)] == sent(coordinator.on(21, ("durable", 1, None)), "complete")


@pytest.mark.row("S08")
def test_a_decision_that_could_not_be_written_aborts_the_checkpoint(make: Make) -> None:
    coordinator = make()
    coordinator.on(10, ("tick", None, None))
    vote(coordinator, 1)
    effects = coordinator.on(20, ("not_durable", 1, "disk full"))
    assert [(3, 1), (4, 1)] == sent(effects, "aborted")[2:]
    assert [] == sent(effects, "complete")


@pytest.mark.row("S07")
def test_a_complete_checkpoint_subsumes_older_ones_before_it_is_announced(make: Make) -> None:
    coordinator = make(max_concurrent_checkpoints=3)
    for now in (10, 20, 30):
        coordinator.on(now, ("tick", None, None))
    vote(coordinator, 1, *NAMES[:3])
    effects = complete(coordinator, 2)
    kinds = [effect[2:4] for effect in of_kind(effects, "send")]
    assert [("aborted", 1)] * 4 + [("complete", 2)] * 2 == kinds
    assert [] == vote(coordinator, 1, NAMES[3])
    assert [(3, 3), (4, 3)] == sent(complete(coordinator, 3), "complete"), "newer ones go on"


def test_what_is_not_in_the_table_raises() -> None:
    with pytest.raises(KeyError):
        TRANSITIONS[CheckpointPhase.ABORTED, CheckpointEvent.DURABLE]


@pytest.mark.row("S07")
def test_cancelling_drops_what_is_undecided_but_not_what_may_be_complete(make: Make) -> None:
    coordinator = make(max_concurrent_checkpoints=2)
    coordinator.on(10, ("tick", None, None))
    coordinator.on(20, ("tick", None, None))
    vote(coordinator, 1)  # its decision is on its way to the disk
    assert [("discard", 2), ("finish",)] == coordinator.on(30, ("cancel", None, None))
    assert [] == coordinator.on(31, ("durable", 1, None)), "it is over: no message is sent"


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.row("S12")
def test_the_last_source_to_end_triggers_the_final_checkpoint(make: Make) -> None:
    coordinator = make()
    assert [] == coordinator.on(5, ("ended_source", 1, None))
    assert [(1, 1), (2, 1)] == sent(coordinator.on(6, ("ended_source", 2, None)), "trigger")
    [(_, record)] = vote(coordinator, 1)
    assert record.final
    assert [("complete", 1, True)] * 2 == [
        effect[2:] for effect in of_kind(coordinator.on(9, ("durable", 1, 0)), "send")
    ]


@pytest.mark.row("S12")
def test_the_job_is_finished_when_every_sink_has_settled_the_final_checkpoint(make: Make) -> None:
    coordinator = make()
    for source in (1, 2):
        coordinator.on(5, ("ended_source", source, None))
    complete(coordinator, 1)
    assert [] == coordinator.on(20, ("closed_sink", 3, None))
    assert [("finish",)] == coordinator.on(21, ("closed_sink", 4, None))


@pytest.mark.row("S12")
def test_a_sink_that_opens_late_is_not_notified_of_a_final_checkpoint_that_is_not_complete(make: Make) -> None:
    coordinator = make(record=CheckpointRecord(7, False, {}, {}))
    coordinator.on(10, ("ended_source", 1, None))
    assert [(1, 8), (2, 8)] == sent(coordinator.on(10, ("ended_source", 2, None)), "trigger")
    assert [] == coordinator.on(11, ("opened", 3, None))


def test_a_final_checkpoint_that_fails_is_taken_again(make: Make) -> None:
    coordinator = make()
    for source in (1, 2):
        coordinator.on(5, ("ended_source", source, None))
    effects = coordinator.on(7, ("declined", 1, ("sink[0]", "no")))
    assert [(1, 2), (2, 2)] == sent(effects, "trigger")
    assert True is vote(coordinator, 2)[0][1].final


@pytest.mark.row("S12")
def test_a_sink_without_the_last_notification_is_restarted(make: Make) -> None:
    coordinator = make()
    for source in (1, 2):
        coordinator.on(5, ("ended_source", source, None))
    [patience] = [effect for effect in complete(coordinator, 1) if effect[2] == "closing"]
    coordinator.on(20, ("closed_sink", 3, None))
    assert [("restart", 1.0)] == coordinator.on(patience[1], ("closing", None, None))


@pytest.mark.row("S12")
def test_a_sink_that_is_still_settling_the_end_has_until_its_deadline(make: Make) -> None:
    coordinator = make(settle_deadline=500)
    for source in (1, 2):
        coordinator.on(5, ("ended_source", source, None))
    complete(coordinator, 1)
    coordinator.on(20, ("closed_sink", 3, None))
    coordinator.on(20, ("unsettled_sink", 4, (1,)))
    assert ["timer"] == [effect[0] for effect in coordinator.on(60, ("closing", None, None))]
    why = "sink[1] is still in doubt about checkpoint 1 after 500 ms"
    assert [("note", why), ("restart", 1.0)] == coordinator.on(520, ("settle_deadline", 4, None))


@pytest.mark.row("S12")
def test_a_restart_from_the_final_checkpoint_only_settles_it(make: Make) -> None:
    coordinator = make(record=CheckpointRecord(4, True, {}, {"source": 2, "sink": 2}))
    started = coordinator.on(0, ("start", None, None))
    assert [] == [effect for effect in started if effect[2:3] == ("tick",)], "no further checkpoint"
    assert [("send", 3, "complete", 4, True)] == coordinator.on(1, ("opened", 3, None))


@pytest.mark.row("S12")
def test_stopping_with_a_checkpoint_makes_the_sources_end(make: Make) -> None:
    assert [(1, None), (2, None)] == sent(make().on(5, ("stop_with_checkpoint", None, None)), "stop")


# -- what is in doubt ------------------------------------------------------------------------------


@pytest.mark.row("S09")
def test_what_stays_in_doubt_for_too_long_fails_the_job(make: Make) -> None:
    coordinator = make(settle_deadline=100)
    assert [("timer", 100, "settle_deadline", 3)] == coordinator.on(0, ("unsettled_sink", 3, (1,)))
    assert [] == coordinator.on(50, ("unsettled_sink", 3, (1,))), "the same one: its time is running already"
    why = "sink[0] is still in doubt about checkpoint 1 after 100 ms"
    assert [("note", why), ("restart", 1.0)] == coordinator.on(100, ("settle_deadline", 3, None))


@pytest.mark.row("S09")
def test_each_checkpoint_in_doubt_has_its_own_deadline(make: Make) -> None:
    coordinator = make(settle_deadline=100)
    coordinator.on(0, ("unsettled_sink", 3, (1,)))
    assert [("timer", 100, "settle_deadline", 3)] == coordinator.on(90, ("unsettled_sink", 3, (2,)))
    assert [] == coordinator.on(100, ("settle_deadline", 3, None)), "1 is settled, 2 is in doubt for 10 ms"
    why = "sink[0] is still in doubt about checkpoint 2 after 100 ms"
    assert [("note", why), ("restart", 1.0)] == coordinator.on(190, ("settle_deadline", 3, None))


@pytest.mark.row("S09")
def test_a_sink_that_has_closed_is_in_doubt_no_more(make: Make) -> None:
    coordinator = make(settle_deadline=100)
    coordinator.on(0, ("unsettled_sink", 3, (1,)))
    coordinator.on(50, ("closed_sink", 3, None))
    assert [] == coordinator.on(100, ("settle_deadline", 3, None))


@pytest.mark.row("S11")
def test_a_failure_calls_the_restart_strategy_and_ends_this_coordinator(make: Make) -> None:
    assert [("give_up", "it died")] == make(restart=NoRestart()).on(5, ("failed", 3, "it died"))
    coordinator = make()
    assert [("restart", 1.0)] == coordinator.on(5, ("failed", 3, "it died"))
    assert [] == coordinator.on(6, ("failed", 4, "it died, too"))


@pytest.mark.row("S05")
@pytest.mark.row("S12")
def test_a_trigger_says_when_it_was_unless_its_barriers_must_stay_aligned(make: Make) -> None:
    def started(coordinator: Coordinator, event: str, *, subtask: int | None = None) -> list[Any]:
        effects = coordinator.on(10, (event, subtask, None))
        return [effect[4] for effect in effects if effect[0] == "send" and effect[2] == "trigger"]

    assert [None, None] == started(make(), "tick")
    assert [10, 10] == started(make(unaligned_checkpoints=True), "tick")
    ending = make(unaligned_checkpoints=True)
    assert [] == started(ending, "ended_source", subtask=1)
    assert [None, None] == started(ending, "ended_source", subtask=2), (
        "a row that were only recorded would never be written"
    )


@pytest.mark.row("S09")
def test_a_vote_counts_once(make: Make) -> None:
    coordinator = make()
    coordinator.on(10, ("tick", None, None))
    vote(coordinator, 1, "source[0]", "source[0]", "sink[0]", "sink[1]")
    assert 3 == len(coordinator.pending[1].states)
    with pytest.raises(AssertionError, match=r"source\[0\] has voted twice for 1, for different states"):
        coordinator.on(11, ("acknowledged", 1, ("source[0]", {"of": "another offset"})))
