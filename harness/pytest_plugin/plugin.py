"""The pytest plugin: its option, the marker `row`, and at the end what stands beside each verdict. Every pytest run
loads this file, so it imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PROPERTY = "sinkproof certificate"  # of tests of claims: the sentences beside the verdict


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Also after tests that passed in other processes: reports carry their properties."""
    reports = [each for found in terminalreporter.stats.values() for each in found]
    said = {text: None for each in reports for name, text in getattr(each, "user_properties", ()) if name == PROPERTY}
    if said:
        terminalreporter.section(PROPERTY)
    for text in said:
        terminalreporter.write_line("\n  ".join(text.splitlines()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sinkproof-fresh",
        action="store_true",
        help="certify sinks anew: use no results that sinkproof has kept in pytest's cache folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(id): the row of the semantics that this test is about, such as S07")
