"""What stands beside a verdict on every surface: the sizes it holds for, what never ran, what was left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.bounds import LargestRun
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.reports import junit, markdown, page, terminal
from sinkproof.reports.coverage_text import bounds_lines, caveat_lines
from sinkproof.reports.document import Document
from sinkproof.reports.report_facts import filled

from ..support.sample_certificate import sample
from .test_renderers import readable

BACK = "sink[0].write.before#1=clock-back"
SIZES = {
    "sources": 2,
    "sinks": 3,
    "rows": 7200,
    "bytes": 63660,
    "keys": 12,
    "checkpoints": 12,
    "checkpoints_pending": 3,
    "restarts": 2,
}
CODE = {"file": "my_sink.py", "executed": 12, "killed": 9, "covered": 3, "stopped": 12, "paused": 11}
STAGES = [
    {"name": "kill at each step", "run": 155, "planned": 155, "finished": True, "skipped": ""},
    {"name": "power losses", "run": 0, "planned": 0, "finished": False, "skipped": "none is offered"},
    {"name": "late zombies", "run": 8, "planned": 20, "finished": False, "skipped": ""},
    {"name": "ordered pairs of faults", "run": 0, "planned": 0, "finished": False, "skipped": ""},
]
SAID = (
    "holds for up to 2 source subtasks, 3 sink subtasks, 7,200 rows, 63,660 bytes, 12 keys, each in some run",
    "and up to 12 checkpoints, 3 pending checkpoints, 2 restarts, each in some run",
    "clocks moved: context.clock (outage, expire); the wall clock never",
    "my_sink.py: 12 lines executed, 9 killed, 12 stopped, 11 paused, 3 covered by an equal crash; never ran: 7, 9",
    "the endurance job: 10,020 rows committed over 50 x cut, 20 x kill-host",
    "not run to the end, simulated shell: late zombies (8 of 20). Not reached: ordered pairs of faults",
)
CONFTEST = """
import json
from pathlib import Path

from sinkproof.pytest_plugin import certified_once


def made_before(locators, folder, **_):
    text = Path(__file__).with_name("certificate.json").read_text()
    (Path(folder) / "certificate.json").write_text(text)
    return json.loads(text)


certified_once.certify = made_before
"""
CONTRACT = """
class Mine:
    claims = ["NO_LOSS"]

    def sink(self, scratch): ...

    def committed(self, scratch): ...
"""
TESTS = """
from my_contract import Mine

from sinkproof import certification

TestMine = certification(Mine, shells=("simulated",), budget_seconds=1.0)
"""


def document_of_one() -> Document:
    """An upheld subject with one shell."""
    document = sample()
    subject = document["subjects"][0]
    subject["code"] = [{**CODE, "never_run": [7, 9], "handlers_never_run": [], "excluded": []}]
    shell = subject["shells"][0]
    shell["long_jobs"] = ["the endurance job: 10,020 rows committed over 50 x cut, 20 x kill-host"]
    shell["bounds"] = {**SIZES, "clocks": ["context.clock: outage", "context.clock: expire"]}
    shell["stages"] = [{"cut": "", **stage} for stage in STAGES]
    return {**document, "verdict": "upheld", "subjects": [{**subject, "shells": [shell]}]}


def pytest_output(document: Document, folder: Path) -> str:
    """Of a test of one claim, which passes."""
    files = {"conftest.py": CONFTEST, "my_contract.py": CONTRACT, "test_mine.py": TESTS}
    for name, text in {**files, "certificate.json": json.dumps(document)}.items():
        (folder / name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "NO_LOSS", "test_mine.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    return done.stdout


SURFACES: dict[str, Callable[[Document, Path], str]] = {
    "terminal": lambda document, folder: terminal.render(document),
    "page": lambda document, folder: page.render(document),
    "junit": lambda document, folder: junit.render(document),
    "markdown": lambda document, folder: markdown.render(document),
    "pytest": pytest_output,
}


@pytest.mark.slow
@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_says_what_a_verdict_holds_for_and_what_never_ran(surface: str, tmp_path: Path) -> None:
    text = readable(surface, SURFACES[surface](document_of_one(), tmp_path))
    for sentence in SAID:
        assert sentence in text, sentence


def test_what_is_said_of_several_subjects_holds_for_each_of_them() -> None:
    one = document_of_one()["subjects"][0]
    smaller: dict[str, Any] = {**SIZES, "sinks": 2, "rows": 24, "clocks": ["context.clock: expire"]}
    other = {**one, "shells": [{**one["shells"][0], "bounds": smaller}]}
    sizes, _, clocks = bounds_lines(filled({"canaries": [], "subjects": [one, other]})["subjects"])
    assert "2 sink subtasks, 24 rows" in sizes
    assert "clocks moved: context.clock (expire); the wall clock never" == clocks


def run(schedule: str, **more: Any) -> RunResult:
    return RunResult(
        schedule=parse(schedule) if schedule else Schedule(),
        anomalies=(),
        trace=[],
        names=(),
        history=[],
        failure="",
        rows_committed=24,
        **{"struck": (), "finished": True, **more},
    )


def test_bounds_are_those_of_runs_that_finished_on_their_own() -> None:
    largest = LargestRun()
    largest.note(run("", checkpoints_pending=3))
    before = largest.document()
    assert (2, 2, 24, 3, 0, ()) == (
        *(before.sources, before.sinks, before.rows, before.checkpoints_pending, before.restarts, before.clocks),
    )
    assert 3 == before.checkpoints
    largest.note(run("job=scale-out", finished=False, restarts=9))
    largest.note(run("job=scale-out"))
    largest.note(run("job=outage"))
    assert before == largest.document(), "nothing was restored, and no time has passed"
    largest.note(run("job=scale-out", restarts=1))
    largest.note(run("job=outage", restarts=1))
    assert (3, 1) == (largest.document().sinks, largest.document().restarts)
    largest.note(run(f"job=year-end {BACK}", struck=parse(BACK).faults, moved_wall_clock=True))
    assert ("context.clock: outage", "wall clock: year-end", "context.clock: clock-back") == largest.document().clocks


def test_of_many_stages_that_were_not_reached_the_first_are_named_and_all_are_counted() -> None:
    document = sample()
    document["subjects"][0]["shells"][0]["stages"] = [
        {"name": f"stage {number}", "run": 0, "planned": 0, "finished": False, "skipped": ""} for number in range(9)
    ]
    (said,) = (line for line in caveat_lines(filled(document)["subjects"][0]) if line.startswith("not run"))
    assert said.endswith("Not reached: stage 0; stage 1; stage 2; and 6 further stages")
    assert "stage 8" in page.render(document)
