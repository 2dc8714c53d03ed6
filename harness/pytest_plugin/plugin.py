"""The pytest plugin: registers the marker `row`. Every pytest run loads this file, so it imports nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(id): the row of the semantics that this test is about, such as S07")
