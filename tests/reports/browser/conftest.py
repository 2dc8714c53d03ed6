"""A real browser for tests: the system's Chromium, headless, driven by Playwright. Nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from sinkproof.reports import page as report

from ...support.sample_certificate import sample

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")  # as in .ci/chromium
WIDTH, HEIGHT = 1280, 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each takes a second, and the first one needs the browser to be there."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@dataclass(frozen=True, slots=True)
class Opened:
    """A page, and what it did that no report may do."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def box(self, selector: str) -> dict[str, float]:
        found = self.page.locator(selector).first.bounding_box()
        assert found is not None, selector
        return dict(found)


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module, not of the session: Playwright's event loop would stay in the way of other tests."""
    wanted = os.environ.get("CHROMIUM")
    found = wanted or next((path for path in map(shutil.which, NAMES) if path), None)
    assert found is not None, "no Chromium was found. Run: .ci/chromium (`make test` does so)"
    with sync_playwright() as playwright:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium refuses to have one as root
        browser = playwright.chromium.launch(executable_path=found, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a document's report in a context of its own, offline; `scripts`, `width`, `scheme` as a reader has them."""
    contexts = []

    def opened(
        *, document: dict[str, Any] | None = None, width: int = WIDTH, scheme: str = "light", scripts: bool = True
    ) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(report.render(document or sample()), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=scripts,
            offline=True,
        )
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        made = Opened(context.new_page())
        made.page.on("request", lambda request: made.requests.append(request.url))
        made.page.on("console", lambda message: made.complaints.append(message.text))
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.goto(path.as_uri())
        return made

    yield opened
    for context in contexts:
        context.close()
