"""After a failure: how long to wait, or that it was the last."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
)


@pytest.mark.row("S11")
def test_no_restart() -> None:
    assert NoRestart().next_delay(0) is None


@pytest.mark.row("S11")
def test_fixed_delay_restarts_a_fixed_number_of_times() -> None:
    strategy = FixedDelay(attempts=2, delay=7)
    assert [7, 7, None, None] == [strategy.next_delay(now) for now in (0, 100, 10_000, 20_000)]


@pytest.mark.row("S11")
def test_failure_rate_gives_up_when_failures_come_too_close_together() -> None:
    strategy = FailureRate(failures=2, interval=100, delay=7)
    assert [7, 7, 7, 7] == [strategy.next_delay(now) for now in (0, 60, 120, 180)], "never three within 100 ms"
    assert strategy.next_delay(200) is None, "120, 180 and 200"


@pytest.mark.row("S11")
def test_exponential_delay_grows_to_its_limit_and_starts_afresh_after_a_quiet_time() -> None:
    strategy = ExponentialDelay(initial=1, limit=5, factor=2, reset_after=1000)
    assert [1, 2, 4, 5, 5] == [strategy.next_delay(now) for now in (0, 10, 20, 30, 40)]
    assert [5, 1] == [strategy.next_delay(now) for now in (40 + 1004, 40 + 1004 + 1005)]


def always_failing(engine: Any) -> Any:
    class NeverOpens(engine.StagingSink):
        def open(self, context: Any) -> None:
            raise OSError("the target is away")

    return NeverOpens


@pytest.mark.row("S11")
@pytest.mark.parametrize(
    ("restart", "generations"),
    [(NoRestart, 1), (lambda: FixedDelay(attempts=3), 4), (lambda: FailureRate(failures=5, interval=1e6), 6)],
)
def test_a_job_that_cannot_recover_fails_for_good_when_its_strategy_says_so(
    engine: Any, restart: Any, generations: int
) -> None:
    run = engine.run(sink=always_failing(engine), restart=restart)
    assert generations == len(run.noted("generation"))
    assert (False, "OSError: the target is away") == (run.simulation.finished, run.simulation.failure)


@pytest.mark.row("S11")
def test_the_shell_waits_as_long_as_the_strategy_says(engine: Any) -> None:
    def waits(*, factor: float) -> list[float]:
        run = engine.run(
            sink=always_failing(engine),
            restart=lambda: LastOf(ExponentialDelay(initial=100, factor=factor), attempts=4),
        )
        times = [now for now, _, _ in run.noted("generation")]
        return [later - earlier for earlier, later in pairwise(times)]

    constant, doubled = waits(factor=1), waits(factor=2)
    assert [0, 100, 300] == [long - short for long, short in zip(doubled, constant, strict=True)][:3]


class LastOf:
    """A strategy with an end, so that the test has one."""

    def __init__(self, strategy: Any, *, attempts: int) -> None:
        self.strategy, self.left = strategy, attempts

    def next_delay(self, now: float) -> float | None:
        self.left -= 1
        return self.strategy.next_delay(now) if self.left else None  # type: ignore[no-any-return]


@pytest.mark.row("S11")
def test_a_restart_starts_from_the_latest_complete_checkpoint(engine: Any) -> None:
    run = engine.run(schedule="sink[0].write.before#9=kill")
    [(died, _, _)] = run.noted("write.before")
    complete = [checkpoint_id for now, _, checkpoint_id in run.noted("complete") if now < died]
    assert complete
    opened = {argument[:2] for _, argument in run.target.calls_of("open")}
    assert {(700_001, None), (700_002, max(complete))} == opened
    assert engine.rows_of(engine.input()) == run.counts
