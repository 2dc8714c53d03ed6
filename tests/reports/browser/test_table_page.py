"""The page of the comparison table in a real browser: light, dark, narrow, without scripts and without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from sinkproof.reports import table_page

CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
COLOURS = """(selector) => [...new Set([...document.querySelectorAll(selector)].map((each) => {
  const style = getComputedStyle(each);
  return [style.color, style.backgroundColor].join("; ");
}))].map((each) => each.split("; "))"""
CLEAR = "rgba(0, 0, 0, 0)"
GRADES = ("exactly-once", "effectively-once", "at-least-once")
every_scheme = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture
def page(browser: Browser, scheme: str, width: int) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=True,
        offline=True,
    )
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("width", [390, 800, 1400])
@every_scheme
def test_the_table_page_is_readable(page: Page, project: Path) -> None:
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((project / "reports/examples/table.html").as_uri())
    assert 1 == len(requests)
    assert [] == complaints
    assert [] == page.evaluate(CONTRAST)["bad"]
    assert 0 == page.evaluate(OVERFLOW)
    assert 5 == page.get_by_role("img").count()
    assert page.get_by_role("img", name="Rows per second").is_visible()
    assert "Upheld" == page.locator(".verdict").inner_text()


@pytest.mark.parametrize("width", [800])
@every_scheme
def test_each_guarantee_has_its_colour_and_a_difference_from_what_was_expected_is_filled(
    page: Page, project: Path, tmp_path: Path
) -> None:
    table = json.loads((project / "reports/examples/table.json").read_text(encoding="utf-8"))
    table["pairs"][0]["differences"] = ["grade: expected another one"]
    (tmp_path / "table.html").write_text(table_page.render(table), encoding="utf-8")
    page.goto((tmp_path / "table.html").as_uri())
    words = [page.evaluate(COLOURS, f".grade.{name}") for name in (*GRADES, "differs")]
    marks = [page.evaluate(COLOURS, f".dot.{name}") for name in GRADES]
    for colours in (words, marks):
        assert [1] * len(colours) == [len(each) for each in colours]
        assert len(colours) == len({text for ((text, _),) in colours})
    assert [True, True, True, False] == [background == CLEAR for ((_, background),) in words]
    assert [] == page.evaluate(CONTRAST)["bad"]
