"""Texts of a certificate beside its verdicts (glossary, repeating command, steps before a fault), and documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sinkproof.campaign.finding_text import STEPS_SHOWN, steps
from sinkproof.certifier.certify import LEAST_SECONDS, Options, command_line
from sinkproof.certifier.glossary import glossary
from sinkproof.chaos.points import CATALOGUE
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.subject.claims import ORACLE_CLAIMS, Claim, names


def run_result(schedule: Schedule, points: list[str], *, actors: tuple[int, ...] = ()) -> RunResult:
    """A run that passed these points in this order, all at sink[0] or at the subtasks that `actors` names."""
    subtasks = actors or (0,) * len(points)
    return RunResult(
        schedule=schedule,
        struck=schedule.faults,
        anomalies=(),
        trace=list(zip(subtasks, points, strict=True)),
        names=("sink[0]", "sink[1]"),
        history=[],
        finished=True,
        failure="",
        rows_committed=0,
        log=b"",
    )


def test_there_is_a_sentence_for_every_word() -> None:
    words = glossary()
    assert set(ORACLE_CLAIMS) == set(words["oracles"])
    every_claim = Claim(0)
    for claim in Claim:
        every_claim |= claim
    assert set(names(every_claim)) == set(words["claims"])
    assert {f"R{number}" for number in range(1, 20)} == set(words["root_causes"])
    assert CATALOGUE == words["points"]
    assert {"kill", "stop", "kill-job"} <= set(words["faults"])
    assert [] == [sentence for kind in words.values() for sentence in kind.values() if not sentence.strip()]


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (Options(), "sinkproof certify 'my sink.py:Mine'"),
        (Options(shells=("process",), seed=3, budget_seconds=15, budget_holds=True),
         "sinkproof certify 'my sink.py:Mine' --on process --seed 3 --budget 15s"),
        (Options(shells=("simulated", "process", "spark"), canaries=False),
         "sinkproof certify 'my sink.py:Mine' --on all --no-canaries"),
        (Options(budget_seconds=LEAST_SECONDS), "sinkproof certify 'my sink.py:Mine' --budget least"),
    ],
)  # fmt: skip
def test_the_command_that_repeats_a_run(options: Options, command: str) -> None:
    assert command == command_line(["my sink.py:Mine"], options)


def test_the_steps_are_those_of_the_faulted_attempt_and_end_at_the_last_fault() -> None:
    schedule = parse("sink[0].commit.after#2=kill")
    points = ["commit.after", "write.before", "open.before", "line(a.py:3)", "commit.after", "open.after"]
    assert ["commit.after", "open.before", "commit.after"] == steps(
        run_result(schedule, points, actors=(0, 1, 0, 0, 0, 0))
    )


def test_many_steps_are_cut_short() -> None:
    schedule = parse("sink[0].commit.after#1=kill")
    points = [f"p.{letter}" for letter in "abcdefgh"]
    found = steps(run_result(schedule, [*points, "commit.after"]))
    assert STEPS_SHOWN == len(found)
    assert ["p.h", "commit.after"] == found[-2:]


def test_a_run_without_an_injected_fault_has_no_steps() -> None:
    assert [] == steps(run_result(parse("no-fault"), ["open.before"]))
    assert [] == steps(run_result(parse("sink[0].commit.after#2=kill"), ["commit.after"]))


def test_contract_md_lists_every_claim_with_what_breaks_it(project: Path) -> None:
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", (project / "CONTRACT.md").read_text(), re.MULTILINE))
    assert {claim.name for claim in Claim} == listed
    assert {*Claim.__members__} - listed == {"AT_LEAST_ONCE", "EFFECTIVELY_ONCE", "EXACTLY_ONCE"}


def test_the_readme_is_short_and_says_what_a_reader_needs(project: Path) -> None:
    text = (project / "README.md").read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if line.strip()]) <= 160
    needed = {"Install", "What a verdict means, and how long it takes", "How it compares"}
    assert set() == needed - set(re.findall(r"^## (.+)$", text, re.MULTILINE))
    linked = {
        "apache/iceberg/issues/17340",
        "jepsen-io/jepsen",
        "HypothesisWorks/hypothesis",
        "apache/flink",
        "estuary/flow",
    }
    assert set() == {place for place in linked if f"](https://github.com/{place}" not in text}
    assert re.search(r"\(harness/certifier/VERDICTS\.md\) has what a certificate\s+cannot show", text)
