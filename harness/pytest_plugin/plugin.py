"""The pytest plugin: its options and markers, where the tests of a certification stand, and at the end what stands
beside each verdict. Every pytest run loads this file, so it imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PROPERTY = "sinkproof certificate"  # of tests of claims: the sentences beside the verdict
OPTIONS = {  # on the command line with --sinkproof- before it, in the configuration file with sinkproof_
    "budget": "wall time for each sink, in all shells together, such as 60s; `least`: until nothing is missing",
    "shells": "where sinks run: simulated, process, spark, separated by commas",
    "certificates": "folder for certificates and their pages, below the project's root",
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Also after tests that passed in other processes: reports carry their properties."""
    reports = [each for found in terminalreporter.stats.values() for each in found]
    said = {text: None for each in reports for name, text in getattr(each, "user_properties", ()) if name == PROPERTY}
    if said:
        terminalreporter.section(PROPERTY)
    for text in said:
        terminalreporter.write_line("\n  ".join(text.splitlines()))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sinkproof", "certification of sinks")
    group.addoption(
        "--sinkproof-fresh",
        action="store_true",
        help="certify sinks anew: use no results that sinkproof has kept in pytest's cache folder",
    )
    strict = "upheld only if every statement ran and no stage was cut short"
    group.addoption("--sinkproof-strict", action="store_true", help=strict)
    parser.addini("sinkproof_strict", strict, type="bool", default=False)
    for name, text in OPTIONS.items():
        group.addoption(f"--sinkproof-{name}", metavar=name.upper(), help=text)
        parser.addini(f"sinkproof_{name}", text, default=".sinkproof/pytest" if name == "certificates" else "")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(id): the row of the semantics that this test is about, such as S07")
    config.addinivalue_line("markers", "sinkproof: a test of a certification; the first one to run certifies the sink")


def pytest_itemcollected(item: pytest.Item) -> None:
    """The test stands where the certification was asked for. pytest-timeout does not end it, unless the user's file has
    a limit of its own: the first test takes a minute, and each wait within has its own limit.
    """
    place = getattr(getattr(item, "cls", None), "certification_line", None)
    if place is None:
        return
    *_, name = item.reportinfo()
    item.reportinfo = lambda: (item.path, place, name)  # type: ignore[method-assign]
    if item.config.pluginmanager.hasplugin("timeout") and item.get_closest_marker("timeout") is None:
        import pytest

        item.add_marker(pytest.mark.timeout(0))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A setting that cannot be used is one error, before anything runs."""
    if any(hasattr(getattr(item, "cls", None), "certification_line") for item in items):
        from sinkproof.pytest_plugin.settings import check_settings

        check_settings(config)
