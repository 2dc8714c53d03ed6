"""The comparison table as text, Markdown and HTML: every form shows the same facts and loads nothing from outside."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reports import table_charts, table_page, table_text

from .test_renderers import parsed, readable

FORMS: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "table.txt": ("text", table_text.render),
    "table.md": ("markdown", table_text.markdown),
    "table.html": ("page", table_page.render),
}
every_form = pytest.mark.parametrize("name", FORMS)


@pytest.fixture
def table(project: Path) -> dict[str, Any]:
    """A real one, of everything."""
    found: dict[str, Any] = json.loads((project / "reports/examples/table.json").read_text(encoding="utf-8"))
    return found


@every_form
def test_the_sample_equals_what_its_document_renders_to(project: Path, table: dict[str, Any], name: str) -> None:
    kept = (project / "reports/examples" / name).read_text(encoding="utf-8")
    again = "sinkproof table --from reports/examples/table.json --out reports/examples"
    assert FORMS[name][1](table).rstrip() == kept.rstrip(), f"make it anew: {again}"


def test_the_sample_has_every_pair_on_every_target(table: dict[str, Any]) -> None:
    assert all(target["measured"] for target in table["targets"])
    assert all(pair["measured"] and not pair["differences"] for pair in table["pairs"])
    assert "upheld" == table["verdict"]


@every_form
def test_every_form_shows_measured_and_expected_values_and_why_a_pair_is_missing(
    table: dict[str, Any], name: str
) -> None:
    kind, render = FORMS[name]
    text = readable(kind, render(table))
    for pair in table["pairs"]:
        assert pair["name"] in text
        assert pair["expected"]["grade"] in text
        assert f"{pair['measured']['rows_per_second']:,}" in text
    assert all(each["why"] in text for each in table["invalid"])
    assert all(", ".join(each["offers"]) in text for each in table["strategies"])
    assert "lost, and the job fails loudly" in text
    assert f"processor {table['machine']['processor']}" in text.replace("\u200b", "")


@every_form
def test_every_form_shows_what_was_not_measured_and_what_differs(table: dict[str, Any], name: str) -> None:
    kind, render = FORMS[name]
    kafka = next(target for target in table["targets"] if target["name"] == "kafka")
    kafka["measured"] = False
    unmeasured, wrong, *_ = [pair for pair in table["pairs"] if pair["target"] == "files"]
    unmeasured["measured"], unmeasured["why_not_measured"] = None, "its driver is gone"
    wrong["differences"] = ["grade: expected exactly-once, measured broken"]
    wrong["measured"]["grade"] = "broken"
    table["verdict"] = "violated"
    text = readable(kind, render(table))
    assert f"{unmeasured['name']} could not be measured: its driver is gone" in text
    assert f"{wrong['name']}: grade: expected exactly-once, measured broken" in text
    assert "broken ✗" in text or "✗ broken" in text
    assert "sinkproof table --on kafka" in text


def test_the_page_is_self_contained_and_describes_its_charts_in_words(table: dict[str, Any]) -> None:
    found = parsed(table_page.render(table))
    assert [] == [value for _, name, value in found.attributes if name in ("src", "href") and value[:1] not in "#d"]
    drawn = found.attributes.count(("svg", "role", "img"))
    assert len(table_charts.CHARTS) == drawn == found.tags.count("desc")
    assert found.tags.count("table") == found.tags.count("caption") == 5
    assert any(value.startswith("default-src 'none'") for _, name, value in found.attributes if name == "content")


def test_each_guarantee_has_a_class_beside_its_word_and_what_is_not_as_expected_another(table: dict[str, Any]) -> None:
    (wrong, *_) = [pair for pair in table["pairs"] if "at-least-once" == pair["measured"]["grade"]]
    for differing, grade in ((0, "at-least-once"), (1, "broken"), (1, "at-least-once")):
        wrong["differences"], wrong["measured"]["grade"] = ["not as expected"] * differing, grade
        page = table_page.render(table)
        found = re.findall(r'<span class="grade ([^"]*)"><span aria-hidden="true">(.)</span> ([a-z-]+)<', page)
        right = Counter(pair["measured"]["grade"] for pair in table["pairs"] if not pair["differences"])
        expected = Counter({(name, "✓", name): count for name, count in right.items()})
        expected["differs", "✗", grade] = differing
        assert Counter(found) == expected + expected  # in the overview, and in the table of its target


def test_in_pictures_each_guarantee_has_a_form_and_a_word_of_its_own(table: dict[str, Any]) -> None:
    table["pairs"][0]["measured"]["grade"] = "broken"
    page = table_page.render(table)
    marks = re.findall(r'<path class="dot ([a-z-]+)" [^>]*d="([^"]+)"><title>\1</title>', page)
    grades = Counter(pair["measured"]["grade"] for pair in table["pairs"])
    legend = Counter(grades.keys())
    assert Counter(grade for grade, _ in marks) == legend + Counter([*grades.elements()] * len(table_charts.CHARTS))
    assert 4 == len(grades) == len(set(marks)) == len({form for _, form in marks})
    ranks = re.findall("</svg>([a-z-]+)</li>", page)
    assert ["exactly-once", "effectively-once", "at-least-once", "broken"] == ranks


def test_the_page_escapes_text_from_the_document(table: dict[str, Any]) -> None:
    table["machine"]["processor"] = "<script>alert(1)</script>\x1b"
    page = table_page.render(table)
    assert 1 == page.count("<script>")
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page


def test_a_table_without_measurements_has_no_charts(table: dict[str, Any]) -> None:
    for pair in table["pairs"]:
        pair["measured"] = None
    assert [] == table_charts.charts(table)
    assert "svg" not in parsed(table_page.render(table)).tags


def test_equal_ratios_have_equal_distances_and_every_dot_is_inside_its_chart(table: dict[str, Any]) -> None:
    for chart in table_charts.charts(table):
        places = [x for x, _ in chart.ticks]
        steps = {round(after - before) for before, after in pairwise(places)}
        assert max(steps) - min(steps) <= 1
        dots = [x for dot in chart.dots for x in (dot.x, dot.x_to) if x is not None]
        assert len(table["pairs"]) == len(chart.dots)
        assert chart.left <= min(dots) <= max(dots) <= places[-1] < chart.width
        assert all(dot.y < chart.height for dot in chart.dots)
