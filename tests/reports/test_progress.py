"""Progress shows the current fault, redrawn on a terminal and as few lines in a log."""

from __future__ import annotations

import io

from sinkproof.reports import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def play(now: list[float], view: progress.Progress) -> None:
    """A short run: one subject, twenty schedules, a second each."""
    view.start("files/two-phase", "process", 20)
    for kills in range(20):
        now[0] += 1.0
        view.step("sink[0].commit.after = kill", kills)
    view.done("upheld")
    view.close()
    view.close()


def test_progress_on_a_terminal_shows_the_current_fault_and_leaves_one_line() -> None:
    now, stream = [0.0], Terminal()
    play(now, progress.open_progress(stream, clock=lambda: now[0]))
    text = stream.getvalue()
    for fact in ("files/two-phase [process]", "injecting sink[0].commit.after = kill", "7/20", "19 kills"):
        assert fact in text, fact
    assert "upheld    files/two-phase [process]  20/20, 19 kills, 20.0 s" == text.splitlines()[-1].split("\x1b[2K")[-1]
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")


def test_progress_in_a_log_is_one_line_every_few_seconds_at_most() -> None:
    now, stream = [0.0], io.StringIO()
    play(now, progress.open_progress(stream, clock=lambda: now[0]))
    lines = stream.getvalue().splitlines()
    assert [
        "files/two-phase [process] 0/20, 0 kills: starts",
        "files/two-phase [process] 5/20, 4 kills: injecting sink[0].commit.after = kill",
        "files/two-phase [process] 10/20, 9 kills: injecting sink[0].commit.after = kill",
    ] == lines[:3]
    assert 5 == len(lines)
    assert "\x1b" not in stream.getvalue()


def test_quiet_progress_writes_nothing() -> None:
    stream = io.StringIO()
    play([0.0], progress.open_progress(stream, clock=lambda: 0.0, quiet=True))
    assert "" == stream.getvalue()
