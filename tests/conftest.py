"""What every test may ask for, and how Hypothesis behaves here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: it would measure the machine. No database: a failure found once belongs into a test of its own, and two
# pytest workers would share the file.
settings.register_profile("project", deadline=None, database=None, print_blob=True)
settings.load_profile("project")


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def command_environment() -> dict[str, str]:
    """An environment for commands run as a user would: `sinkproof`, `pytest` and `python` are those of this interpreter."""
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}", "COLUMNS": "120", "NO_COLOR": "1"}
