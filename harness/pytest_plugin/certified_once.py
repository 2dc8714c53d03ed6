"""Certifies a sink for all its tests: once in a pytest run, whichever test and process comes first. The certificate and
its page stay in the project.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.certifier.certify import Options, certify
from sinkproof.certifier.result_store import one_at_a_time
from sinkproof.chaos.clock import now
from sinkproof.pytest_plugin.settings import certificates_folder
from sinkproof.reports import page
from sinkproof.reports.certificate_file import load
from sinkproof.reports.document import FILE_NAME, DocumentError
from sinkproof.reports.progress import Lines, Progress, open_progress
from sinkproof.reports.report_facts import canary_sentence, filled

WORKER: Final = "PYTEST_XDIST_WORKER"  # in the environment of xdist's processes
REPORT: Final = "report.html"


def certified(locator: str, request: pytest.FixtureRequest, *, options: Options) -> dict[str, Any]:
    """The subject's part of the certificate. The first call certifies; calls in other processes wait for its result.

    A certification that came to nothing is one error, that of the first test; the others are skipped.
    """
    config = request.config
    locator = from_here(locator)
    place = run_folder(request.getfixturevalue("tmp_path_factory")) / f"sinkproof-{_digest(locator, options)}"
    kept = certificates_folder(config) / _name(locator, config.rootpath)
    with one_at_a_time(place / "lock"):
        try:
            document = load(place)
        except DocumentError:
            document = {"complete": False}
        if not document.get("complete"):
            with shown_progress(config) as progress:
                document = certify([locator], place, options=options, progress=progress)
            _keep(document, place, kept)
        document = filled(document)
        (subject,) = document["subjects"]
        if came_to_nothing(subject):
            report_once(place / "came to nothing", subject, test=request.node.nodeid)
    shown = kept.relative_to(config.rootpath) if kept.is_relative_to(config.rootpath) else kept
    notes = "".join(f"\n  {note}" for note in [*document["notes"], f"canaries: {canary_sentence(document)}"])
    where = f"certificate: {shown / FILE_NAME}\npage: {shown / REPORT}"
    return {**subject, "certificate": f"{where}{notes}"}


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder that all processes of this pytest run share: with xdist, the parent of the workers' folders."""
    base = factory.getbasetemp()
    return base.parent if WORKER in os.environ else base


def from_here(locator: str) -> str:
    """With a path from the working directory, if it is below: a replay is read on other machines, too."""
    return locator.removeprefix(f"{Path.cwd()}{os.sep}")


@contextmanager
def shown_progress(config: pytest.Config) -> Iterator[Progress]:
    """On stderr, past pytest's capture. Lines of xdist's processes are not redrawn: they share a terminal."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        in_worker = WORKER in os.environ
        if not in_worker:
            print(file=sys.stderr)  # pytest has left its cursor behind the name of the file
        progress = Lines(sys.stderr, clock=now) if in_worker else open_progress(sys.stderr, clock=now)
        with closing(progress):
            yield progress


def came_to_nothing(subject: dict[str, Any]) -> bool:
    """Whether nothing is known of any claim, because no fault ever struck."""
    struck = any(shell["points_reached"] or shell["points_covered"] for shell in subject["shells"])
    return subject["verdict"] == "unknown" and not (struck or subject["findings"])


def report_once(mark: Path, subject: dict[str, Any], *, test: str) -> None:
    """The test that the mark names fails, also when it is repeated; a mark that there is not yet names this one."""
    if not mark.exists():
        mark.write_text(test, encoding="utf-8")
    if mark.read_text(encoding="utf-8") == test:
        pytest.fail(f"{subject['name']} could not be certified: {subject['why']}", pytrace=False)
    pytest.skip(f"{subject['name']} could not be certified: see {mark.read_text(encoding='utf-8')}")


def _keep(document: dict[str, Any], place: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    if not (ignored := kept.parent / ".gitignore").exists():
        ignored.write_text("*\n", encoding="utf-8")
    shutil.copyfile(place / FILE_NAME, kept / FILE_NAME)
    (kept / REPORT).write_text(page.render(document), encoding="utf-8")


def _digest(locator: str, options: Options) -> str:
    """The same for the same request, so that a class that is certified with two budgets is certified twice."""
    request = (locator, options.shells, options.budget_seconds, options.budget_holds, options.canaries, options.strict)
    return hashlib.sha256(repr(request).encode()).hexdigest()[:12]


def _name(locator: str, root: Path) -> str:
    """A folder's name: the class below the project's root, as tests-test_orders.py-Contract."""
    return re.sub(r"[^\w.]+", "-", locator.removeprefix(f"{root}{os.sep}")).strip("-")
