"""The terminal summary of one realistic certificate, wide and narrow, with and without colour."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reports import certificate_file, page, terminal

from ..support import sample_certificate
from ..support.sample_certificate import REPLAY, sample


def test_the_terminal_shows_the_line_of_the_fault_and_never_wraps_the_replay_command() -> None:
    for width in (40, 60, 100, 200):
        text = terminal.render(sample(), width=width)
        assert any(line.endswith(REPLAY) for line in text.splitlines()), width
        assert "my_sink.py:42" in text
    assert "4,812" in text


@pytest.mark.parametrize("width", [60, 150])
def test_the_terminal_shows_the_expected_grade_beside_the_measured_one(width: int) -> None:
    text = terminal.render(sample(), width=width)
    assert "exactly-once (expected)" in text
    assert "(expected exactly-once)" in text


def test_the_terminal_keeps_to_its_width_except_for_replay_commands() -> None:
    for width in (60, 80, 110, 160):
        lines = terminal.render(sample(), width=width).splitlines()
        assert [] == [line for line in lines if len(line) > width and "replay" not in line], width


def test_the_terminal_says_the_same_without_colour_as_with_it() -> None:
    colored = terminal.render(sample(), width=120, color=True)
    assert "\x1b[" in colored
    assert terminal.render(sample(), width=120) == re.sub(r"\x1b\[[0-9;]*m", "", colored)


def test_a_violation_in_a_terminal_has_a_small_timeline_of_its_smallest_schedule() -> None:
    text = terminal.render(sample())
    assert "after   open.after → notify_complete.before → commit.before → commit.after" in text
    lines = [line.split(maxsplit=2) for line in text.splitlines() if re.match(r" +(time +)?(0\.\d|end )", line)]
    words = [" ".join(words).removeprefix("time ") for words in lines]
    assert [
        "0.002 coordinator generation 1 begins",
        "0.022 coordinator checkpoint 1 is complete",
        "0.026 sink[0] notify_complete: commit; 10 rows appear: 0:0, 0:1, 0:2, 0:3, …",
        "0.026 sink[0] ⚡ kill at commit.after",
        "0.211 coordinator generation 2 begins",
        "0.214 sink[0] creates part-0-2; 10 rows appear once more: 0:0, 0:1, 0:2, 0:3, …",
        "0.215 sink[0] open: commits part-0-1 again",
        "0.234 sink[1] declines checkpoint 3",
        "0.250 coordinator checkpoint 4 is complete",
        "end reader 10 rows too many: 0:0, 0:1, 0:2, 0:3, …",
    ] == [re.sub(r" +", " ", line) for line in words]


def test_another_finding_of_the_same_bug_is_named_by_its_place() -> None:
    document = sample()
    findings = document["subjects"][1]["findings"]
    (claimed,) = (finding for finding in findings if finding["claimed"])
    findings.append({**claimed, "line": {**claimed["line"], "number": 40}})
    lines = terminal.render(document).splitlines()
    assert ["also    1 finding at my_sink.py:40"] == [line.strip() for line in lines if line.startswith("  also ")]


def test_the_terminal_prints_the_sentence_of_complete_closures_once_and_names_incomplete_ones() -> None:
    text = " ".join(terminal.render(sample()).split())
    assert f"3 closures of whole-job crashes complete, 636 states: {sample_certificate.SENTENCE}" in text
    assert "not complete, of whole-job crashes: --command './my-sink --flag' (the state grows" in text
    assert "not complete, of crashes with a partial death: files/two-phase (depth 2, the budget ended);" in text


@pytest.mark.parametrize("width", [110, 120, 150, 220])
def test_a_table_gives_way_to_blocks_before_it_breaks_the_names_of_subjects(width: int, project: Path) -> None:
    document, name = certificate_file.load(project / "reports/examples"), "orders.py:MyContract"
    document["subjects"] = [{**subject, "name": name} for subject in document["subjects"]]
    overview, _, _ = terminal.render(document, width=width).partition("NO_DUPLICATES:")
    assert len(document["subjects"]) < overview.count(name)  # beside the first finding, too


def test_in_a_narrow_terminal_source_lines_are_cut_and_keep_their_indentation() -> None:
    document = sample()
    line = document["subjects"][1]["findings"][1]["line"]
    line["around"] = ["   41  final = name", f"   42      os.replace({'pending, ' * 20})"]
    lines = terminal.render(document, width=60).splitlines()
    (struck,) = (text for text in lines if "→   42      os.replace(pending, " in text)
    assert struck.endswith("…")
    assert len(struck) <= 60


@pytest.mark.parametrize("render", [terminal.render, page.render], ids=["terminal", "page"])
def test_the_lines_that_called_the_struck_one_are_shown_below_it(render: Callable[[dict[str, Any]], str]) -> None:
    text = render(sample())
    struck, caller = "42      os.replace(pending, final)", "called from my_sink.py:57 in EvilSink.notify_complete"
    assert -1 < text.find(struck) < text.find(caller)
