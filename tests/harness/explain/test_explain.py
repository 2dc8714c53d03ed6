"""The command, the text and the document of a demonstration: failed checks are shown, and two runs give the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sinkproof.cli.explain_command import explain
from sinkproof.explain import s02_epochs
from sinkproof.explain.demonstration import Check, Demonstration, Fact, Scene, TimelineEntry, plain, rows_named
from sinkproof.explain.demonstration_text import render
from sinkproof.explain.semantics_rows import ROWS, demonstrate

Command = Callable[..., subprocess.CompletedProcess[str]]
EVERY_DOCUMENT = (
    "import json; from sinkproof.explain.semantics_rows import *; "
    "print(json.dumps([demonstrate(r).document for r in ROWS]))"
)


def demonstration(*scenes: Scene) -> Demonstration:
    return Demonstration(row="S02", sentence="A sentence", scenes=scenes, lesson="a lesson")


def scene(*, observed: int = 3, steps: tuple[TimelineEntry, ...] = ()) -> Scene:
    return Scene(
        title="A scene",
        ran="something",
        outcome="it came to 3",
        steps=steps,
        facts=(Fact(says="a fact", value={(0, 1)}),),
        checks=(Check(what="it comes to 3", expected=3, observed=observed),),
    )


# -- the values -----------------------------------------------------------------------------------


def test_a_demonstration_holds_if_it_has_checks_and_all_of_them_hold() -> None:
    assert demonstration(scene()).holds
    assert not demonstration(scene(), scene(observed=4)).holds
    assert not demonstration(Scene(title="", ran="", outcome="")).holds, "a demonstration without checks shows nothing"


def test_values_become_json_and_sets_are_sorted() -> None:
    assert {"1": [[0, 1], [0, 2]], "b": "x"} == plain({1: {(0, 2), (0, 1)}, "b": b"x"})
    assert json.dumps(demonstration(scene()).document)


def test_a_sentence_names_at_most_twelve_rows_and_counts_the_others() -> None:
    assert "(0,0) (0,1)" == rows_named([(0, 0), (0, 1)])
    assert "none" == rows_named([])
    assert rows_named([(0, at) for at in range(20)]).endswith("(0,11) and 8 more")


# -- the text -------------------------------------------------------------------------------------


def test_the_text_shows_a_failed_check_with_both_values() -> None:
    text = render(demonstration(scene(observed=4)), width=100)
    assert "FAILED it comes to 3: expected 3, observed 4" in text
    assert "1 checks failed" in text
    assert "FAILED" not in render(demonstration(scene()), width=100)


STEPS = (
    TimelineEntry(at=1, lane="sink[0]", what="writes (0,0)"),
    TimelineEntry(at=1, lane="coordinator", what="triggers 1"),
    TimelineEntry(at=2, lane="source[0]", what="snapshot 1"),
    TimelineEntry(at=2, lane="sink[0]", what="killed", crash=True),
)


def test_a_timeline_has_a_lane_for_each_actor_along_the_flow_of_rows() -> None:
    lines = [line.strip() for line in render(demonstration(scene(steps=STEPS)), width=100).splitlines()]
    at = lines.index("ms  coordinator  source[0]   sink[0]")
    assert ["1                           writes (0,0)", "triggers 1", "2               snapshot 1  X killed"] == lines[
        at + 2 : at + 5
    ]


def test_lanes_too_wide_for_the_terminal_become_lines_that_name_them() -> None:
    lines = render(demonstration(scene(steps=STEPS)), width=40).splitlines()
    assert "        2  sink[0]      X killed" in lines


@pytest.mark.parametrize("width", [80, 120])
def test_no_sentence_is_wider_than_the_terminal(width: int) -> None:
    sentences = [line for line in render(demonstrate("S20"), width=width).splitlines() if "=>" in line or "- " in line]
    assert sentences
    assert [] == [line for line in sentences if len(line) > width]


# -- the command ----------------------------------------------------------------------------------


def test_without_a_row_all_27_are_listed() -> None:
    listed = CliRunner().invoke(explain, [])
    assert (0, 27) == (listed.exit_code, len(listed.output.splitlines()))
    assert [f"S{number:02}" for number in range(1, 28)] == [line.split()[0] for line in listed.output.splitlines()]
    assert list(ROWS) == [each["row"] for each in json.loads(CliRunner().invoke(explain, ["--json"]).output)]


def test_the_json_document_has_the_run_the_facts_and_the_checks() -> None:
    done = CliRunner().invoke(explain, ["s13", "--json"])
    document = json.loads(done.output)
    assert (0, "S13", True) == (done.exit_code, document["row"], document["holds"])
    first = document["scenes"][0]
    assert {"title", "ran", "unit", "timeline", "facts", "outcome", "checks"} == set(first)
    assert {"what", "expected", "observed", "holds"} == set(first["checks"][0])
    assert any(step["crash"] for step in first["timeline"])


def test_a_check_that_fails_makes_the_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s02_epochs, "scenes", lambda: (scene(observed=4),))
    done = CliRunner().invoke(explain, ["S02"])
    assert 1 == done.exit_code
    assert "FAILED it comes to 3" in done.output


def test_an_expected_event_that_is_missing_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s02_epochs, "scenes", lambda: (scene(observed=next(iter(()))),))
    done = CliRunner().invoke(explain, ["S02", "--json"])
    assert 1 == done.exit_code
    [only] = json.loads(done.output)["scenes"]
    assert "StopIteration" in only["checks"][0]["observed"]


@pytest.mark.slow
def test_an_unknown_row_is_a_bad_argument_and_names_the_rows(sinkproof_command: Command) -> None:
    done = sinkproof_command("explain", "S28")
    assert (3, "") == (done.returncode, done.stdout)
    assert "rows are S01 to S27" in done.stderr


@pytest.mark.slow
def test_the_command_prints_the_demonstration_and_leaves_no_files(sinkproof_command: Command, tmp_path: Path) -> None:
    done = sinkproof_command("explain", "S04")
    assert (0, "") == (done.returncode, done.stderr)
    assert "is processed twice" in done.stdout
    assert [] == list(tmp_path.iterdir())


def steady(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without facts measured in real time, which are marked as varying."""
    for scenes in (document["scenes"] for document in documents):
        for one in scenes:
            one["facts"] = [fact for fact in one["facts"] if not fact["varies"]]
    return documents


@pytest.mark.slow
def test_two_processes_print_the_same_documents(tmp_path: Path) -> None:
    """Also with another order of sets."""
    said = [
        subprocess.run(
            [sys.executable, "-c", EVERY_DOCUMENT],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert steady(json.loads(said[0])) == steady(json.loads(said[1]))
    assert 27 == len(json.loads(said[0]))
    assert "/dev/shm" not in said[0]
    assert f"-{os.getpid()}-" not in said[0]  # as in names of scratch folders


# -- root causes -----------------------------------------------------------------------------------


def test_the_command_explains_a_root_cause_by_a_sink_beside_its_right_sibling() -> None:
    done = CliRunner().invoke(explain, ["r1"])
    assert 0 == done.exit_code, done.output
    assert re.search(r"^ +\+", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^ +-", done.stdout, re.MULTILINE)
    assert "sual repair" in done.stdout
