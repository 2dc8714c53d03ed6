"""`make samples`: certifies the README's wrong sink and two others, and makes reports/examples anew, pictures included.

The pictures of the page and of the terminal at three widths, light and dark, are laid into build/pictures, to be looked
at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI, TerminalTheme
from rich.text import Text

from sinkproof.reports import terminal
from sinkproof.reports.certificate_file import load

PROJECT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(PROJECT / "tests/house")]
from test_docs import blocks  # noqa: E402

EXAMPLES: Final = PROJECT / "reports/examples"
PICTURES: Final = PROJECT / "build/pictures"
SUBJECTS: Final = ("orders_contract.py:Contract", "files/two-phase", "memory/plain")
FORMATS: Final = {"html": "report.html", "junit": "junit.xml", "markdown": "summary.md", "text": "summary.txt"}
WIDTHS: Final = (390, 800, 1400)
POINTS_OF_COLUMN: Final = 6.2  # in letters of 10 points
THEMES: Final = {"light": DEFAULT_TERMINAL_THEME, "dark": MONOKAI}
SHOWN: Final = {"width": 1150, "height": 900}  # of the picture in the README


def certify() -> None:
    """In an empty folder, so that paths in the certificate begin there."""
    folder = Path(tempfile.mkdtemp())
    written: set[str] = set()
    for block in blocks("README.md", (PROJECT / "README.md").read_text(encoding="utf-8")):
        name = block.mark.removeprefix("file ")
        if name != block.mark and name not in written:  # the first of a name is the wrong one
            (folder / name).write_text(block.code, encoding="utf-8")
            written.add(name)
    try:
        sinkproof("certify", *SUBJECTS, "--budget", "least", "--fresh", "--out", ".out", folder=folder)
        shutil.copyfile(folder / ".out/certificate.json", EXAMPLES / "certificate.json")
    finally:
        shutil.rmtree(folder)


def sinkproof(*arguments: str, folder: Path) -> str:
    command = [sys.executable, "-m", "sinkproof", *arguments]
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout


def render() -> None:
    for kind, name in FORMATS.items():
        text = sinkproof("report", str(EXAMPLES), "--format", kind, folder=PROJECT)
        (EXAMPLES / name).write_text(text, encoding="utf-8")
    sinkproof("table", "--from", str(EXAMPLES / "table.json"), "--out", str(EXAMPLES), folder=PROJECT)


@contextmanager
def chromium() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")  # as in .ci/chromium
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=found, args=sandbox)
        yield browser
        browser.close()


def take_pictures(browser: Browser) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto((EXAMPLES / "report.html").as_uri())
            page.screenshot(path=PICTURES / f"page-{width}-{scheme}.png")
            page.locator(".finding").first.screenshot(path=PICTURES / f"finding-{width}-{scheme}.png")
            page.locator("section:has(.finding)").first.screenshot(path=PICTURES / f"subject-{width}-{scheme}.png")
            page.close()
            shown = browser.new_page(viewport={"width": width, "height": 900})
            shown.set_content(in_terminal(width, THEMES[scheme]))
            shown.screenshot(path=PICTURES / f"terminal-{width}-{scheme}.png", full_page=True)
            shown.close()
    page = browser.new_page(viewport=SHOWN, color_scheme="light")
    page.goto((EXAMPLES / "report.html").as_uri())
    page.locator(".finding svg").first.scroll_into_view_if_needed()
    page.locator(".finding").first.screenshot(path=EXAMPLES / "report.png")


def in_terminal(width: int, theme: TerminalTheme) -> str:
    """The summary as a terminal of this width in points shows it, as HTML."""
    columns = int(width / POINTS_OF_COLUMN)
    console = Console(record=True, file=StringIO(), width=columns, force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(terminal.render(load(EXAMPLES), width=columns, color=True)), soft_wrap=True)
    return console.export_html(theme=theme, inline_styles=True).replace('<pre style="', '<pre style="font-size:10px;')


def main() -> None:
    if "--only-pictures" not in sys.argv:
        certify()
        render()
    with chromium() as browser:
        take_pictures(browser)


if __name__ == "__main__":
    main()
