"""Sinks that write to Delta and Iceberg tables with released libraries, certified at the default budget.

They look up what is committed, then commit. On one snapshot of the table a commit in between is a conflict; on two it
goes unnoticed, and a zombie commits once more what its successor has committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.certifier.certify import Options, certify

SUBJECTS: Final = Path(__file__).parent / "subjects"
RIGHT: Final = ("delta_tables.py:OneSnapshot", "iceberg_tables.py:OneSnapshot")
WRONG: Final = (
    "delta_tables.py:TwoSnapshots",
    "iceberg_tables.py:TwoSnapshots",
    "iceberg_tables.py:RetriedByTheLibrary",
)
pytestmark = [pytest.mark.released, pytest.mark.slow, pytest.mark.timeout(1800)]  # minutes each, more on a busy machine


def certified(subject: str, folder: Path) -> dict[str, Any]:
    document = certify([f"{SUBJECTS}/{subject}"], folder, options=Options(canaries=False))
    (found,) = document["subjects"]
    return found


@pytest.mark.parametrize("subject", RIGHT)
def test_a_sink_that_checks_and_commits_on_one_snapshot_is_upheld(subject: str, tmp_path: Path) -> None:
    found = certified(subject, tmp_path)
    assert ("upheld", "exactly-once", []) == (found["verdict"], found["grade"], found["findings"]), found["why"]


@pytest.mark.parametrize("subject", WRONG)
def test_a_sink_that_checks_on_one_snapshot_and_commits_on_another_is_violated(subject: str, tmp_path: Path) -> None:
    found = certified(subject, tmp_path)
    assert "violated" == found["verdict"], found["why"]
    repeated = [finding["schedule"] for finding in found["findings"] if finding["oracle"] == "O2"]
    assert [schedule for schedule in repeated if schedule.endswith("=stop")]
