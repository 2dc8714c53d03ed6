"""The samples in reports/examples: every report equals what today's renderers make of the same certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reports import certificate_file, junit, markdown, page, terminal

REPORTS: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "report.html": ("html", page.render),
    "junit.xml": ("junit", junit.render),
    "summary.md": ("markdown", markdown.render),
    "summary.txt": ("text", terminal.render),
}
BYTES_MOST = 300_000


@pytest.fixture
def examples(project: Path) -> Path:
    return project / "reports/examples"


@pytest.mark.parametrize("name", REPORTS)
def test_a_sample_equals_what_its_certificate_renders_to(examples: Path, name: str) -> None:
    kind, render = REPORTS[name]
    made = render(certificate_file.load(examples))
    kept = (examples / name).read_text(encoding="utf-8")
    command = f"sinkproof report reports/examples --format {kind} > reports/examples/{name}"
    assert made.rstrip() == kept.rstrip(), f"make it anew: {command}"
    assert len(made.encode()) < BYTES_MOST


def test_the_samples_show_every_kind_of_verdict_that_a_sink_can_earn(examples: Path) -> None:
    document = certificate_file.load(examples)
    assert {"upheld", "violated"} == {subject["verdict"] for subject in document["subjects"]}
    assert {True, False} == {finding["claimed"] for subject in document["subjects"] for finding in subject["findings"]}
    worst = next(subject for subject in document["subjects"] if subject["verdict"] == "violated")
    assert any(finding["timeline"] and finding["line"] for finding in worst["findings"])
    assert {"simulated", "process"} == {shell["shell"] for shell in worst["shells"]}
    assert all(canary["convicted"] != canary["control"] for canary in document["canaries"])
    assert document["complete"]


def test_the_samples_hold_nothing_else(examples: Path) -> None:
    table = {"table.json", "table.txt", "table.md", "table.html"}  # tests/reports/test_table_reports.py
    assert {"certificate.json", "report.png", *REPORTS} | table == {path.name for path in examples.iterdir()}
