"""Rare faults of the engine under a correct sink: notifications, deposed coordinators, restored checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

NOTIFICATIONS = ("notify_complete", "notify_aborted")


def notified(run: Any, subtask: int) -> list[int]:
    return [argument for index, argument in run.target.calls_of("notify_complete") if index == subtask]


def delivered(engine: Any, run: Any) -> bool:
    return bool(run.simulation.finished and engine.rows_of(engine.input()) == run.counts)


# -- messages -------------------------------------------------------------------------------------


def test_a_late_notification_is_overtaken_by_the_next_one(engine: Any) -> None:
    run = engine.run(schedule="checkpoint.notify#1=late", max_concurrent_checkpoints=3)
    assert [2, 1, 3] == notified(run, 0)
    assert [1, 2, 3] == notified(run, 1)
    assert delivered(engine, run)


def test_a_repeated_notification_comes_now_and_after_the_next_one(engine: Any) -> None:
    run = engine.run(schedule="checkpoint.notify#1=repeat", max_concurrent_checkpoints=3)
    assert [1, 2, 1, 3] == notified(run, 0)
    assert delivered(engine, run)


@pytest.mark.row("S12")
@pytest.mark.parametrize("kind", ["late", "repeat"])
def test_the_last_notification_comes_late_or_twice_and_no_restart_has_to_make_up_for_it(engine: Any, kind: str) -> None:
    run = engine.run(schedule=f"checkpoint.notify#5={kind}", max_concurrent_checkpoints=3)
    assert 1 == len(run.noted("generation"))
    assert delivered(engine, run)


@pytest.mark.parametrize(("kind", "times"), [("late", 1), ("repeat", 2)])
def test_a_late_abort_notification_follows_the_next_completion(engine: Any, kind: str, times: int) -> None:
    schedule = f"sink[0].acknowledge.before#1=decline checkpoint.abort#3={kind}"
    run = engine.run(schedule=schedule, max_concurrent_checkpoints=3)
    calls = [(name, argument) for name, subtask, argument in run.target.calls if subtask == 0]
    notifications = [call for call in calls if call[0] in NOTIFICATIONS]
    assert times == notifications.count(("notify_aborted", 1))
    assert ("notify_complete", 2) == notifications[notifications.index(("notify_aborted", 1), times - 1) - 1]
    assert delivered(engine, run)


# -- requests -------------------------------------------------------------------------------------


def test_a_request_lands_after_its_sender_was_replaced_and_nothing_follows_it(engine: Any) -> None:
    """The zombie's commit removes what it shows, so it shows it once; it never gets to `commit.after`."""
    run = engine.run(schedule="sink[0].commit.before#1=land")
    points = [point for actor, point in run.simulation.trace if run.simulation.names[actor] == "sink[0]"]
    assert 2 == len(run.noted("generation"))
    assert points.count("commit.before") - 1 <= points.count("commit.after")
    assert ["sink[0]"] == run.witness.resumed_actors
    assert delivered(engine, run)


@pytest.mark.parametrize("point", ["commit.before", "commit.after"])
def test_a_call_fails_until_its_attempt_is_replaced(engine: Any, point: str) -> None:
    class Stubborn(engine.StagingSink):  # type: ignore[misc]
        """Right: tries each commit three times, and then lets the attempt fail."""

        def reveal(self, name: str) -> None:
            for attempt in range(3):
                try:
                    super().reveal(name)
                except OSError:
                    if attempt == 2:
                        raise
                    continue
                return

    run = engine.run(schedule=f"sink[0].{point}#1=fail", sink=Stubborn)
    points = [point for actor, point in run.simulation.trace if run.simulation.names[actor] == "sink[0]"]
    assert 3 <= points.count("commit.before")
    assert 1 == len(run.noted("raised"))
    assert delivered(engine, run)


# -- coordinators ---------------------------------------------------------------------------------


@pytest.mark.row("S09")
def test_a_deposed_coordinator_cannot_decide_any_more(engine: Any) -> None:
    run = engine.run(schedule="checkpoint.persist.before#2=depose", max_concurrent_checkpoints=3)
    assert [2] == [detail for _, _, detail in run.noted("fenced")]
    assert 2 == len(run.noted("generation"))
    assert 2 not in [checkpoint_id for _, _, checkpoint_id in run.noted("complete")]
    assert delivered(engine, run)


@pytest.mark.parametrize("point", ["trigger", "persist.after", "notify"])
def test_no_subtask_receives_a_message_of_a_deposed_coordinator(engine: Any, point: str) -> None:
    run = engine.run(schedule=f"checkpoint.{point}#2=depose", max_concurrent_checkpoints=3)
    assert 1 == len(run.noted("goes on"))
    assert delivered(engine, run)


def test_a_coordinator_that_was_deposed_may_be_suspended_while_the_whole_job_crashes(engine: Any) -> None:
    run = engine.run(schedule="checkpoint.notify#2=depose sink[0].open.after#2=kill-job")
    assert delivered(engine, run)
    assert [] == run.noted("goes on")


# -- what is restored -----------------------------------------------------------------------------


@pytest.mark.row("S12")
@pytest.mark.parametrize("place", ["checkpoint.trigger#2", "checkpoint.persist.after#1", "checkpoint.notify#2"])
def test_a_job_that_was_stopped_with_a_checkpoint_goes_on_from_it(engine: Any, place: str) -> None:
    run = engine.run(schedule=f"{place}=drain", max_concurrent_checkpoints=3)
    opened = [restored for _, (_, restored, _) in run.target.calls_of("open")]
    assert [None, None] == opened[:2]
    assert all(opened[2:])
    assert 4 == len(run.target.calls_of("end_of_input"))
    assert 4 == len(run.target.calls_of("close"))
    assert delivered(engine, run)


@pytest.mark.row("S07")
@pytest.mark.parametrize(
    ("place", "restored"),
    [("trigger#2", None), ("persist.before#1", 1), ("persist.after#1", 1), ("notify#2", 1)],
)
def test_a_job_that_was_cancelled_goes_on_from_its_last_checkpoint(
    engine: Any, place: str, restored: int | None
) -> None:
    run = engine.run(schedule=f"checkpoint.{place}=cancel", max_concurrent_checkpoints=3)
    opened = [before for _, (_, before, _) in run.target.calls_of("open")]
    assert [None, None, restored, restored] == opened
    assert 4 == len(run.target.calls_of("close"))
    assert 2 == len(run.target.calls_of("end_of_input")), "a cancelled sink receives no end of input"
    complete = [checkpoint_id for _, _, checkpoint_id in run.noted("complete")]
    assert [*range(1, complete[-1] + 1)] == complete, "the numbers go on from the restored one"
    assert delivered(engine, run)


@pytest.mark.parametrize(
    "faults", ["checkpoint.notify#4=kill", "sink[1].open.after#2=kill", "sink[0].write.before#9=kill-job"]
)
def test_deaths_while_a_job_is_stopped_and_started_again_lose_nothing(engine: Any, faults: str) -> None:
    run = engine.run(schedule=f"checkpoint.notify#2=drain {faults}", max_concurrent_checkpoints=3)
    assert delivered(engine, run)


@pytest.mark.row("S11")
@pytest.mark.parametrize(("kind", "restored"), [("rewind", 1), ("forget", None)])
def test_an_older_checkpoint_is_restored_and_ids_go_on_all_the_same(
    engine: Any, kind: str, restored: int | None
) -> None:
    run = engine.run(schedule=f"sink[0].notify_complete.after#2={kind}", max_concurrent_checkpoints=3)
    opened = [before for _, (_, before, _) in run.target.calls_of("open")]
    complete = [checkpoint_id for _, _, checkpoint_id in run.noted("complete")]
    assert [None, None, restored, restored] == opened
    assert sorted(set(complete)) == complete
    assert set(engine.rows_of(engine.input())) == set(run.counts)
    assert run.repeated


def test_ids_that_were_complete_never_come_again_after_a_further_crash(engine: Any) -> None:
    run = engine.run(
        schedule="sink[0].notify_complete.after#2=rewind sink[0].write.before#9=kill-job", max_concurrent_checkpoints=3
    )
    complete = [checkpoint_id for _, _, checkpoint_id in run.noted("complete")]
    assert sorted(set(complete)) == complete
