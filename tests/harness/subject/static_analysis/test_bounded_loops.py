"""Loops that try something a limited number of times, and which of them came to their end in a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.certifier.certify import Options, certify
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.source_files import OwnCode
from sinkproof.subject.static_analysis.bounded_loops import loops_that_give_up, run_out

HEAD, INSIDE = "line(sink.py:2)", frozenset({"line(sink.py:3)", "line(sink.py:4)"})


def found(tmp_path: Path, body: str) -> dict[str, frozenset[str]]:
    file = tmp_path / "sink.py"
    file.write_text(f"def publish(self, part, rows):\n{body}")
    return dict(loops_that_give_up({str(file): "sink.py"}))


@pytest.mark.parametrize(
    ("head", "left"),
    [
        ("for _ in range(5):", "return"),
        ("for attempt in range(self.tries):", "break"),
        ("while tries < 5:", "return"),
        ("while monotonic() <= deadline:", "break"),
    ],
)
def test_a_loop_that_goes_on_silently_is_found_with_its_lines(tmp_path: Path, head: str, left: str) -> None:
    body = f"    {head}\n        if self.put(rows):\n            {left}\n"
    assert {HEAD: INSIDE} == found(tmp_path, body)
    assert {HEAD: INSIDE} == found(tmp_path, f"{body}    self.note(part)\n")


@pytest.mark.parametrize(
    "body",
    [
        "    for _ in range(5):\n        if self.put(rows):\n            return\n    raise OSError\n",
        "    for _ in range(5):\n        if self.put(rows):\n            break\n    if not self.done:\n        raise\n",
        "    for _ in range(5):\n        if self.put(rows):\n            return\n    else:\n        raise OSError\n",
        "    for _ in range(5):  # pragma: no cover\n        if self.put(rows):\n            return\n",
        "    for _ in range(5):\n        self.put(rows)\n",
        "    for _ in range(5):\n        try:\n            self.connect()\n            break\n        except OSError:\n"
        "            sleep(1)\n    self.put(rows)\n",
        "    for at in range(5):\n        if rows[at]:\n            return\n",
        "    for at in range(len(rows)):\n        if self.put(at):\n            return\n",
        "    for row in rows:\n        if self.put(row):\n            return\n",
        "    while self.pending:\n        if self.put(rows):\n            return\n",
        "    while True:\n        if self.put(rows):\n            return\n",
    ],
)
def test_other_loops_are_not(tmp_path: Path, body: str) -> None:
    assert {} == found(tmp_path, body)


def trace(*numbers: int, actor: int = 3) -> list[tuple[int, str]]:
    return [(actor, f"line(sink.py:{number})") for number in numbers]


@pytest.mark.parametrize(
    ("passed", "ended"),
    [
        (trace(2, 3, 4, 9), set()),  # left in the middle
        (trace(2, 3, 2, 3, 2, 9), {HEAD}),
        (trace(2, 3, 2), set()),  # it died there
        ([*trace(2, 3, 2), (3, "open.before"), *trace(9)], set()),  # so did this one
        ([*trace(2, 3, 2), (3, "publish.after"), *trace(9)], {HEAD}),
        ([*trace(2), *trace(9, actor=4), *trace(3)], set()),  # of another attempt
    ],
)
def test_it_has_come_to_its_end_where_no_line_inside_follows_its_head(
    passed: list[tuple[int, str]], ended: set[str]
) -> None:
    assert ended == run_out(passed, {HEAD: INSIDE})


@pytest.mark.parametrize(("kind", "counts"), [("kill", True), ("pause", True), ("stop", False), ("hang", False)])
def test_runs_with_zombies_show_no_end_of_a_loop(kind: str, counts: bool, tmp_path: Path) -> None:
    """They and their successors have one name in traces."""
    file = tmp_path / "sink.py"
    file.write_text(
        "def publish(self, rows):\n    for _ in range(5):\n        if self.put(rows):\n            return\n"
    )
    schedule = parse(f"sink[0].publish.before#1={kind}")
    contract = load("memory/plain")
    with ScheduleRunner(contract, Scratch(name="run", path=tmp_path / "scratch")) as runner:
        result = replace(runner.run(Schedule()), schedule=schedule, trace=trace(2, 3, 2, 9))
    results = CampaignResults(contract=contract, shell="simulated")
    results.own_code = OwnCode(files={str(file): "sink.py"})
    results.add(result)
    assert counts is (HEAD in results.loops_run_out)


SINK = """\
class Parts:
    def __init__(self):
        self.rows = {}
        self.busy = False

    def is_committed(self, part):
        return part in self.rows

    def publish(self, part, rows):
        for _ in range(5):
            if not self.busy:
                self.rows[part] = list(rows)
                return
        LAST

    def record(self, part):
        pass


PARTS = Parts()


class Of:
    claims = "EXACTLY_ONCE"

    def sink(self, scratch):
        return PARTS

    def freeze(self, scratch):
        return dict(PARTS.rows)

    def thaw(self, scratch, rows):
        PARTS.rows = dict(rows)

    def committed(self, scratch):
        return [row for rows in PARTS.rows.values() for row in rows]
"""


@pytest.mark.parametrize(("last", "is_told"), [("pass", True), ("raise TimeoutError(part)", False)])
def test_no_claim_is_upheld_if_a_loop_that_gives_up_never_did(tmp_path: Path, last: str, *, is_told: bool) -> None:
    name = f"of_{tmp_path.name}"
    text = SINK.replace("        LAST\n", f"        {last}\n" if "raise" in last else "")
    (tmp_path / f"{name}.py").write_text(text)
    options = Options(shells=("simulated",), budget_seconds=5.0, canaries=False, cores=1)
    document: Any = certify([f"{tmp_path}/{name}.py:Of"], tmp_path / "out", options=options)
    (subject,) = document["subjects"]
    silent = f"{name}.py:10 (for _ in range(5):) goes on silently when it has tried often enough"
    assert is_told is (silent in subject["why"]), subject["why"]
    assert "unknown" == subject["verdict"] or not is_told
