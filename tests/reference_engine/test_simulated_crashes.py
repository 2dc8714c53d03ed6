"""Crashes in the simulated shell: judged as SIGKILL would leave things, the same every time, and never without end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.judging.fault_allowances import REWINDS
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.sink_adapters.protocol import Row

CONFTEST = Path(__file__).with_name("conftest.py")
UNWOUND = Row(9, 9, "unwound", "a dead attempt has unwound")

ACTORS = ("coordinator", "source[0]", "source[1]", "sink[0]", "sink[1]")
POINTS = (
    *("open.before", "open.after", "write.before", "write.after", "snapshot.before", "snapshot.after"),
    *("acknowledge.before", "acknowledge.after", "notify_complete.before", "notify_complete.after"),
    *("notify_aborted.before", "commit.before", "commit.after", "end_of_input.before", "generation.before"),
    *("generation.after", "checkpoint.trigger", "checkpoint.persist.before", "checkpoint.persist.after"),
    *("checkpoint.notify", "checkpoint.abort"),
)


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    actor, point = draw(st.sampled_from(ACTORS)), draw(st.sampled_from(POINTS))
    possible = [kind for kind in sorted(KINDS) if not KINDS[kind].needs and kind not in REWINDS]
    kinds = [kind for kind in possible if KINDS[kind].applies(actor, point)]
    return Fault(actor, point, draw(st.integers(1, 8)), draw(st.sampled_from(kinds)))


schedules = st.builds(Schedule, st.lists(faults(), max_size=3).map(tuple), st.integers(0, 50))


@pytest.mark.slow
@pytest.mark.row("S09")
@pytest.mark.row("S11")
@settings(max_examples=150)
@given(schedule=schedules, concurrent=st.integers(1, 3))
@example(schedule=Schedule((Fault("source[0]", "acknowledge.before", 2, "decline"),)), concurrent=3)
def test_a_correct_sink_delivers_every_row_once_under_any_faults(
    engine: Any, schedule: Schedule, concurrent: int
) -> None:
    run = engine.run(schedule=str(schedule), max_concurrent_checkpoints=concurrent)
    assert run.simulation.finished, run.simulation.failure
    assert engine.rows_of(engine.input()) == run.counts
    for record in run.witness.decided:
        covered = run.simulation.covered(record)
        early = [row for row in run.witness.visible_at_decision[record.checkpoint_id] if row[1] >= covered[row[0]]]
        assert [] == early, f"of checkpoint {record.checkpoint_id}"


# -- judge first, unwind later ------------------------------------------------------------------


def confessing(engine: Any) -> Any:
    """A sink that would give itself away if it were unwound: SIGKILL runs neither `finally` nor `except`."""

    class Confessing(engine.StagingSink):  # type: ignore[misc]
        def write(self, batch: Any) -> None:
            try:
                self.context.reach("append.before")
            except BaseException:
                self.target.visible.append(UNWOUND)
                raise
            finally:
                super().write(batch)

        def reveal(self, name: str) -> None:
            done = False
            try:
                super().reveal(name)
                done = True
            finally:
                if not done:
                    self.target.visible.clear()

    return Confessing


@pytest.mark.parametrize("kind", ["kill", "kill-job"])
@pytest.mark.parametrize("place", ["sink[0].append.before#3", "sink[1].commit.before#2", "sink[0].commit.after#1"])
def test_what_the_dead_would_do_while_unwinding_is_not_judged(engine: Any, kind: str, place: str) -> None:
    run = engine.run(schedule=f"{place}={kind}", sink=confessing(engine))
    assert engine.rows_of(engine.input()) == run.counts
    assert run.target.visible != run.witness.visible_at_end, "it did unwind, after it was judged"


def test_the_dead_are_not_finalised_before_the_judgement(engine: Any) -> None:
    """A buffered file that is garbage-collected writes what SIGKILL would have lost."""

    class Flushing(engine.StagingSink):  # type: ignore[misc]
        def __del__(self) -> None:
            self.target.visible.append(UNWOUND)

    run = engine.run(schedule="sink[0].write.before#3=kill-job sink[1].write.before#9=kill", sink=Flushing)
    assert engine.rows_of(engine.input()) == run.counts


def test_an_attempt_that_survives_its_own_death_acts_on_nothing_any_more(engine: Any) -> None:
    class Immortal(engine.StagingSink):  # type: ignore[misc]
        def notify_complete(self, checkpoint_id: int) -> None:
            try:
                super().notify_complete(checkpoint_id)
            except BaseException as death:
                self.record("survived", type(death).__name__)

    run = engine.run(schedule="sink[0].commit.before#2=kill", sink=Immortal)
    assert [(0, "Killed")] == run.target.calls_of("survived")
    assert ("survived", 0, "Killed") == run.target.calls[-1], "after everything else had ended"
    assert engine.rows_of(engine.input()) == run.counts


STOP = "sink[0].append.before#3=stop"


def test_a_zombie_resumes_after_its_successor_has_begun_and_goes_on_where_it_was_stopped(engine: Any) -> None:
    run = engine.run(schedule=STOP, sink=confessing(engine))
    assert (["sink[0]"], 2) == (run.witness.resumed_actors, len(run.noted("generation")))
    assert engine.rows_of(engine.input()) == run.counts
    opened = [index for index, (call, subtask, _) in enumerate(run.target.calls) if (call, subtask) == ("open", 0)]
    assert opened[1] < zombie_write(run), "it wrote its batch when the new attempt was open already"


def test_a_suspended_attempt_passes_no_point_until_it_resumes(engine: Any) -> None:
    points: list[str] = []

    def note_point(simulation: Any, point: str) -> None:
        if simulation.actor in simulation.actor_faults.suspended:
            points.append(point)

    run = engine.run(
        schedule=STOP, sink=confessing(engine), before=lambda simulation: setattr(simulation, "on_point", note_point)
    )
    assert (["sink[0]"], []) == (run.witness.resumed_actors, points)


def zombie_write(run: Any) -> int:
    """Index of the call in which the third batch of sink[0] was written late."""
    writes = [
        (index, argument)
        for index, (call, subtask, argument) in enumerate(run.target.calls)
        if (call, subtask) == ("write", 0)
    ]
    seen = Counter(argument for _, argument in writes)
    return max(index for index, argument in writes if seen[argument] > 1)


@pytest.mark.parametrize("death", ["sink[1].append.before#8=kill", "sink[0].append.before#4=kill"])
def test_a_suspended_attempt_under_the_stack_of_a_dead_one_never_resumes(engine: Any, death: str) -> None:
    """It could only resume after the dead attempt had unwound, and the run would be judged by what that did."""
    run = engine.run(schedule=f"{STOP} {death}", sink=confessing(engine))
    assert ["stop", "kill"] == [fault.kind for fault in run.simulation.faults.injected]
    assert engine.rows_of(engine.input()) == run.counts
    assert UNWOUND not in run.witness.visible_at_end
    assert [] == run.witness.resumed_actors


def test_a_suspended_attempt_resumes_although_the_coordinator_has_died_meanwhile(engine: Any) -> None:
    run = engine.run(schedule=f"{STOP} generation.after#2=kill", sink=confessing(engine))
    assert ["stop", "kill"] == [fault.kind for fault in run.simulation.faults.injected]
    assert (["sink[0]"], engine.rows_of(engine.input())) == (run.witness.resumed_actors, run.counts)


# -- the same every time ------------------------------------------------------------------------

ANOTHER_PROCESS = """
import runpy, sys
engine = runpy.run_path(sys.argv[1])["Engine"]()
for schedule in sys.argv[2:]:
    print(engine.run(schedule=schedule).simulation.history)
"""
SCHEDULES = (
    "no-fault",
    "seed=11 sink[0].commit.before#2=kill checkpoint.notify#3=lose",
    "seed=12 sink[1].snapshot.after#1=stop sink[1].write.after#5=kill-job",
    "seed=13 source[1].acknowledge.before#1=decline sink[0].commit.after#1=error",
)


def test_the_log_is_byte_equal_in_another_process_and_under_another_hash_seed(engine: Any) -> None:
    here = "".join(f"{engine.run(schedule=schedule).simulation.history}\n" for schedule in SCHEDULES)
    command = [sys.executable, "-c", ANOTHER_PROCESS, str(CONFTEST), *SCHEDULES]
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        assert here == there.stdout
    assert "'kill'" in here


def test_another_seed_is_another_run(engine: Any) -> None:
    histories = {str(engine.run(schedule=f"seed={seed} no-fault").simulation.history) for seed in range(5)}
    assert len(histories) > 2


def test_a_context_has_the_same_randomness_each_time_and_another_for_each_attempt(engine: Any) -> None:
    def drawn() -> list[float]:
        numbers = []

        class Gambler(engine.StagingSink):  # type: ignore[misc]
            def open(self, context: Any) -> None:
                super().open(context)
                numbers.append(context.random.random())

        engine.run(schedule="sink[0].write.before#2=kill-job", sink=Gambler)
        return numbers

    assert drawn() == drawn()
    assert len(set(drawn())) == 4


# -- never without end --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("notify_complete", {"settle_deadline": 10**9}),  # in doubt for ever
        ("open", {"restart": lambda: FixedDelay(attempts=10**9)}),  # fails for ever
    ],
)
def test_a_job_that_goes_round_in_circles_is_ended_by_its_budget(engine: Any, method: str, options: Any) -> None:
    class Circling(engine.StagingSink):  # type: ignore[misc]
        def open(self, context: Any) -> None:
            super().open(context)
            if method == "open":
                raise OSError("away")

        def notify_complete(self, checkpoint_id: int) -> Any:
            return [checkpoint_id] if method == "notify_complete" else super().notify_complete(checkpoint_id)

        def settle(self, now: float) -> list[int]:
            return [1]

    run = engine.run(sink=Circling, **options)
    assert run.simulation.sequence > 20_000
    assert (False, "not finished after 20000 events") == (run.simulation.finished, run.simulation.failure)


@pytest.mark.parametrize(
    ("answer", "why"),
    [(None, "returned NoneType, not bytes"), ("text", "returned str, not bytes")],
)
def test_a_snapshot_that_is_not_bytes_fails_the_attempt_and_says_why(engine: Any, answer: Any, why: str) -> None:
    class Wordy(engine.StagingSink):  # type: ignore[misc]
        def snapshot(self, checkpoint_id: int) -> Any:
            return answer

    run = engine.run(sink=Wordy, restart=lambda: FixedDelay(attempts=2))
    assert not run.simulation.finished
    assert why in run.simulation.failure
