"""The page of the comparison table in a real browser: light, dark, narrow, without scripts and without a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400)])
def test_the_table_page_is_readable(browser: Browser, project: Path, scheme: str, width: int) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=True,
        offline=True,
    )
    requests, complaints = [], []
    page = context.new_page()
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
    context.close()
