"""The progress of a pipeline: one line in place on a terminal, a line now and then in a log."""

from __future__ import annotations

import io
import signal

import pytest

from sinkproof.cli.pipeline_run import Interrupts, Milliseconds, _master
from sinkproof.pipeline.pipeline_progress import CLEAR, PipelineStatus, open_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, *, quiet: bool = False) -> str:
    """Twelve seconds, a look every tenth of one; stopped in the last."""
    now = [0.0]
    line = open_line(stream, clock=lambda: now[0], quiet=quiet)
    line.say("starting Spark")
    status = PipelineStatus(rows=0, total=12_000)
    for tenth in range(120):
        now[0] = tenth / 10
        status.rows, status.checkpoints, status.rows_per_second = 100 * tenth, tenth // 2, 1000.0
        status.restarts = tenth // 60
        status.stopping = tenth >= 118
        line.show(status)
    line.close()
    line.close()
    return stream.getvalue()


def test_a_log_gets_a_line_every_five_seconds_and_one_when_the_job_is_to_stop() -> None:
    assert [
        "starting Spark",
        "5,000 of 12,000 rows (41 %), 1,000 rows/s, 25 checkpoints",
        "10,000 of 12,000 rows (83 %), 1,000 rows/s, 50 checkpoints, 1 restart",
        "11,800 of 12,000 rows (98 %), 1,000 rows/s, 59 checkpoints, 1 restart; "
        "stopping with a checkpoint (again: at once)",
    ] == told(io.StringIO()).splitlines()


def test_a_terminal_gets_one_line_that_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = told(Terminal())
    drawn = text.split(CLEAR)
    assert "\n" not in text
    assert "7,000 of 12,000 rows (58 %), 1,000 rows"[:39] in drawn
    assert 39 == max(map(len, drawn))
    assert text.endswith(CLEAR)


def test_quiet_says_nothing() -> None:
    assert "" == told(Terminal(), quiet=True)


@pytest.mark.parametrize(("text", "milliseconds"), [("50ms", 50), ("2s", 2000), ("0.5", 500), ("1m", 60_000)])
def test_intervals_are_read_as_people_write_them(text: str, milliseconds: int) -> None:
    assert milliseconds == Milliseconds().convert(text, None, None)


@pytest.mark.parametrize(
    ("given", "master"),
    [
        (None, "local[4,100000]"),
        ("local[8]", "local[8,100000]"),
        ("local[*]", "local[*,100000]"),
        ("local[8,3]", "local[8,3]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_may_lose_workers(given: str | None, master: str) -> None:
    assert master == _master(given, 4)


def interrupt_twice() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        assert 1 == interrupts.count
        signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_is_a_wish_and_the_second_an_order() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt_twice()
        assert signal.SIG_IGN == signal.getsignal(signal.SIGINT) == signal.getsignal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
    assert (1, before[0]) == (interrupts.count, signal.getsignal(signal.SIGINT))
