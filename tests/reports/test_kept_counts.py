"""Every report that prints counts says how many of them were run now, and how many an earlier command has run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest

from sinkproof.reports import certificate_file, junit, markdown, page, report_facts, terminal
from sinkproof.reports.compare import compare

from ..support.sample_certificate import sample

SINCE = "2026-11-24 03:20:08 UTC"
RUN = 12  # schedules in each shell
RENDERERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "terminal": lambda document: terminal.render(document, width=200),
    "Markdown": markdown.render,
    "page": page.render,
    "JUnit": junit.render,
}


@pytest.fixture
def whole(project: Any) -> dict[str, Any]:
    document = certificate_file.load(project / "reports/examples")
    (subject,) = (each for each in document["subjects"] if each["name"] == "files/two-phase")
    return {**document, "subjects": [subject]}


@pytest.fixture
def kept(whole: dict[str, Any]) -> dict[str, Any]:
    """The same, of which a twentieth was run anew; and all canaries but the first are kept."""
    made = deepcopy(whole)
    for shell in made["subjects"][0]["shells"]:
        shell |= {"schedules_run": RUN, "schedules_kept": shell["schedules_run"] - RUN, "kept_since": SINCE}
        shell |= {"kills": shell["kills"] and 3, "kills_kept": max(0, shell["kills"] - 3)}
    for canary in made["canaries"][1:]:
        canary["kept_since"] = SINCE
    certificate_file.validate(made)
    return made


@pytest.mark.parametrize("name", RENDERERS)
def test_each_report_tells_both_counts(name: str, kept: dict[str, Any]) -> None:
    text = " ".join(RENDERERS[name](kept).split())
    for shell in kept["subjects"][0]["shells"]:
        kept_before = f"{shell['schedules_kept']:,} kept since {SINCE}"
        assert f"{RUN} schedules run in the {shell['shell']} shell, and {kept_before}" in text


def test_counts_in_tables_and_sentences_are_told_apart(whole: dict[str, Any], kept: dict[str, Any]) -> None:
    shells = kept["subjects"][0]["shells"]
    run, before = RUN * len(shells), sum(shell["schedules_kept"] for shell in shells)
    kills_kept = sum(shell["kills_kept"] for shell in shells)
    assert f"{run} (+{before:,} kept)" in terminal.render(kept, width=250)
    assert f"3 (+{kills_kept:,} kept)" in markdown.render(kept)
    assert f"in {run} schedules and {before:,} kept ones with 3 real kills and {kills_kept:,} kept ones" in (
        report_facts.summary(report_facts.filled(kept))
    )
    headline = {label: (number, context) for label, number, context in report_facts.headline(report_facts.filled(kept))}
    assert (str(run), f"{before:,} kept") == headline["schedules run"]
    canaries = len(kept["canaries"])
    assert f"; {canaries - 1} of these results are kept, since {SINCE} at the longest" in terminal.render(
        kept, width=400
    )
    assert "kept" not in terminal.render(whole, width=400)


def test_the_large_numbers_are_these_in_this_order(kept: dict[str, Any]) -> None:
    always = ["schedules run", "real kills", "steps with a fault", "canaries convicted"]
    assert always == [label for label, _, _ in report_facts.headline(report_facts.filled(kept))]
    with_closures = [*always[:3], "durable states crashed from", always[3]]
    assert with_closures == [label for label, _, _ in report_facts.headline(report_facts.filled(sample()))]


def test_a_kept_result_is_no_change(whole: dict[str, Any], kept: dict[str, Any]) -> None:
    assert [] == [change for subject in compare(whole, kept).subjects for change in subject.changes]
