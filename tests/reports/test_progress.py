"""Progress shows for each subject the fault in words, redrawn on a terminal and as few lines in a log."""

from __future__ import annotations

import io
import re

import pytest

from sinkproof.reports import progress

SUBJECT = "my_package/my_long_module_name/my_sink.py:MyContract"
FOUND = "✗ my_sink.py: NO_LOSS: 3 rows lost\n  replay  sinkproof replay ..."


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def play(now: list[float], view: progress.Progress, *, subject: str = "files/two-phase") -> None:
    """A short run: one subject in one shell, twenty schedules, a second each."""
    shell = view.of(subject, "process", 15.0)
    shell.start(subject, "kill at each step")
    for kills in range(20):
        now[0] += 1.0
        shell.step("sink[0].commit.after#1=kill", kills)
    shell.done()
    view.close()
    view.close()


def shown(stream: io.StringIO) -> list[str]:
    """Every line that was ever drawn, without control sequences."""
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "\n", stream.getvalue().replace("\r", "\n")).splitlines()


def test_progress_on_a_terminal_shows_the_current_fault_and_leaves_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    now, stream = [0.0], Terminal()
    play(now, progress.open_progress(stream, clock=lambda: now[0]))
    doing = "kill at each step [process]: killing sink[0] after commit"
    assert f"files/two-phase  7 of 15 s  no finding  7 schedules, 6 kills  {doing}" in shown(stream)
    assert f"files/two-phase  16 s  no finding  16 schedules, 15 kills  {doing}" in shown(stream)
    assert "files/two-phase  no finding  20 schedules, 19 kills  20.0 s" in shown(stream)
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h")


def test_a_narrow_terminal_is_never_overrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    now, stream = [0.0], Terminal()
    play(now, progress.open_progress(stream, clock=lambda: now[0]), subject=SUBJECT)
    redrawn = [line for line in shown(stream) if " of 15 s" in line]
    assert len(redrawn) > 10
    assert max(map(len, redrawn)) < 60
    assert all("MyContract  " in line and "no finding" in line for line in redrawn)


def test_both_shells_of_a_subject_share_its_line_and_findings_belong_to_it() -> None:
    now, stream = [0.0], io.StringIO()
    view = progress.open_progress(stream, clock=lambda: now[0])
    simulated, process = (view.of("a.py:A", shell, 40.0) for shell in ("simulated", "process"))
    other = view.of("b.py:B", "simulated", 40.0)
    simulated.found(1, FOUND)
    process.found(2, "the same again")
    now[0] = 11.0
    process.step("sink[0].commit.after#1=kill", 4, schedules=9)
    other.step("no-fault", 0)
    for each in (simulated, process, other):
        each.done()
    assert [
        *FOUND.splitlines(),
        "a.py:A  11 of 40 s  3 findings  9 schedules, 4 kills  killing sink[0] after commit",
        "b.py:B  11 of 40 s  no finding  1 schedule  no fault",
        "a.py:A  3 findings  9 schedules, 4 kills  11.0 s",
        "b.py:B  no finding  1 schedule  11.0 s",
    ] == stream.getvalue().splitlines()


def test_on_a_terminal_each_of_several_subjects_keeps_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    now, stream = [0.0], Terminal()
    view = progress.open_progress(stream, clock=lambda: now[0])
    one, other = (view.of(name, "process", 40.0) for name in ("a.py:A", "b.py:B"))
    for kills in range(10):
        now[0] += 1.0
        one.step("sink[0].commit.after#1=kill", kills)
        other.step("no-fault", 0)
        if kills == 5:
            one.found(1, FOUND)
    for each in (one, other):
        each.done()
    view.close()
    lines = [line for line in shown(stream) if line]
    assert 5 < sum("a.py:A  " in line and "killing sink[0] after commit" in line for line in lines)
    assert 5 < sum("b.py:B  " in line and "no finding" in line and "no fault" in line for line in lines)
    assert not [line for line in lines if "a.py:A" in line and "b.py:B" in line]
    assert {*FOUND.splitlines()} <= {*lines}


def test_what_convicts_a_canary_is_no_finding() -> None:
    stream = io.StringIO()
    canaries = progress.open_progress(stream, clock=lambda: 0.0).of("canaries", "simulated", None)
    canaries.start("canary: marker after data", "kill at each step")
    canaries.found(1, FOUND)
    canaries.done()
    assert ["canaries  0 s  0 schedules  canary: marker after data", "canaries  0 schedules  0.0 s"] == (
        stream.getvalue().splitlines()
    )


def test_what_a_user_may_change_is_said_once_with_the_name_of_the_subject() -> None:
    stream = io.StringIO()
    progress.open_progress(stream, clock=lambda: 0.0).of("a.py:Mine", "process", 30.0).say("its runs do not overlap")
    assert "a.py:Mine: its runs do not overlap\n" == stream.getvalue()


def test_progress_in_a_log_is_one_line_every_ten_seconds() -> None:
    now, stream = [0.0], io.StringIO()
    play(now, progress.open_progress(stream, clock=lambda: now[0]))
    doing = "kill at each step [process]: killing sink[0] after commit"
    assert [
        "files/two-phase  0 of 15 s  no finding  0 schedules  kill at each step [process]",
        f"files/two-phase  10 of 15 s  no finding  10 schedules, 9 kills  {doing}",
        f"files/two-phase  20 s  no finding  20 schedules, 19 kills  {doing}",
        "files/two-phase  no finding  20 schedules, 19 kills  20.0 s",
    ] == stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("no-fault", "no fault"),
        ("closure: 12 states run", "closure: 12 states run"),
        ("sink[0].line(my_sink.py:42)#3=pause", "pausing sink[0] at my_sink.py:42, time 3"),
        ("sink[0].syscall(rename out/part-*)#1=kill", "killing sink[0] before rename out/part-*"),
        (
            "job=sparse checkpoint.persist.after#1=kill-job",
            "killing the whole job after checkpoint.persist, in job sparse",
        ),
        (
            "checkpoint.notify#1=lose sink[1].open.before#2=rewind",
            "losing a notification at checkpoint.notify, then rewind of sink[1] before open, time 2",
        ),
        (
            "checkpoint.notify#1=lose checkpoint.notify#2=lose checkpoint.notify#3=lose sink[0].open.before#2=kill",
            "losing a notification at checkpoint.notify, then 2 more faults, then killing sink[0] before open, time 2",
        ),
        ("sink[0].syscall(rename out/part-*)#2=kill", "killing sink[0] before rename out/part-*, time 2"),
        ("sink[1].syscall(fdatasync .)#1=lose-tails", "cutting the power before fdatasync ."),
    ],
)
def test_a_schedule_is_shown_in_words(schedule: str, words: str) -> None:
    assert words == progress.in_words(schedule)


def test_quiet_progress_writes_nothing() -> None:
    stream = io.StringIO()
    play([0.0], progress.open_progress(stream, clock=lambda: 0.0, quiet=True))
    assert "" == stream.getvalue()
