"""The progress of a pipeline: one updated line on a terminal, a line every few seconds in a log."""

from __future__ import annotations

import io
import json
import re
import signal
from datetime import UTC, datetime

import click
import pytest

from sinkproof.cli.pipeline_cluster import _master
from sinkproof.cli.pipeline_run import Interrupts, Milliseconds, SparkSetting
from sinkproof.pipeline.pipeline_progress import CLEAR, PipelineStatus, open_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def output_on(stream: io.StringIO, **options: bool) -> str:
    """Twelve seconds of a pipeline, shown ten times a second; it stops in the last fifth of a second."""
    now = [0.0]
    line = open_line(stream, clock=lambda: now[0], **options)
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


def test_a_log_gets_a_line_every_five_seconds_and_one_when_the_job_begins_to_stop() -> None:
    assert [
        "starting Spark",
        "5,000 of 12,000 rows (41 %), 1,000 rows/s, 25 checkpoints",
        "10,000 of 12,000 rows (83 %), 1,000 rows/s, 50 checkpoints, 1 restart",
        "11,800 of 12,000 rows (98 %), 1,000 rows/s, 59 checkpoints, 1 restart; "
        "stopping with a checkpoint (again: at once)",
    ] == output_on(io.StringIO()).splitlines()


def test_a_log_as_json_has_the_numbers_and_the_messages_also_on_a_terminal() -> None:
    lines = [json.loads(line) for line in output_on(Terminal(), as_json=True).splitlines()]
    assert [None, 5000, 10_000, 11_800] == [line.get("rows") for line in lines]
    assert "starting Spark" == lines[0]["message"]
    assert (True, 59, 1, 12_000) == tuple(lines[-1][name] for name in ("stopping", "checkpoints", "restarts", "total"))
    assert all(datetime.fromisoformat(line["at"]).tzinfo is UTC for line in lines)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("spark.ui.enabled", "is no setting of Spark. Write spark.NAME=VALUE"),
        ("user.name=x", "is no setting of Spark"),
        ("spark.master=local[2]", "spark.master is for sinkproof to set: name it with --master"),
        ("spark.task.maxFailures=1", "spark.task.maxFailures is for sinkproof to set"),
    ],
)
def test_settings_that_sinkproof_needs_are_refused(given: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=re.escape(words)):
        SparkSetting().convert(given, None, None)
    assert ("spark.a", "b=c") == SparkSetting().convert("spark.a=b=c", None, None)


def test_a_terminal_gets_one_line_that_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = output_on(Terminal())
    drawn = text.split(CLEAR)
    assert "\n" not in text
    assert "7,000 of 12,000 rows (58 %), 1,000 rows"[:39] in drawn
    assert 39 == max(map(len, drawn))
    assert text.endswith(CLEAR)


def test_quiet_prints_nothing() -> None:
    assert "" == output_on(Terminal(), quiet=True)


@pytest.mark.parametrize(("text", "milliseconds"), [("50ms", 50), ("2s", 2000), ("0.5", 500), ("1m", 60_000)])
def test_intervals_have_a_unit_or_are_seconds(text: str, milliseconds: int) -> None:
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
def test_a_local_master_retries_killed_workers(given: str | None, master: str) -> None:
    assert master == _master(given, 4)


def interrupt_twice() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        assert 1 == interrupts.count
        signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_requests_a_stop_and_the_second_raises() -> None:
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
