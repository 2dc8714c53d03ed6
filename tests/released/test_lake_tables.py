"""Sinks that write to Delta and Iceberg tables with released libraries, certified at the default budget.

They look up what is committed, then commit. On one snapshot of the table a commit in between is a conflict; on two it
goes unnoticed, and a zombie commits once more what its successor has committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.certifier.certify import Options, certify
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

from ..support.named_budget import named_budget

SUBJECTS: Final = Path(__file__).parent / "subjects"
RIGHT: Final = ("delta_tables.py:OneSnapshot", "iceberg_tables.py:OneSnapshot")
WRONG: Final = (
    "delta_tables.py:TwoSnapshots",
    "iceberg_tables.py:TwoSnapshots",
    "iceberg_tables.py:RetriedByTheLibrary",
)
pytestmark = [pytest.mark.released, pytest.mark.slow, pytest.mark.timeout(1800)]  # minutes each, more on a busy machine


def certified(subject: str, folder: Path, *, budget_seconds: float = Options().budget_seconds) -> dict[str, Any]:
    options = Options(canaries=False, budget_seconds=budget_seconds)
    document = certify([f"{SUBJECTS}/{subject}"], folder, options=options)
    (found,) = document["subjects"]
    return found


@pytest.mark.parametrize("subject", RIGHT)
def test_a_sink_that_checks_and_commits_on_one_snapshot_is_upheld(subject: str, tmp_path: Path) -> None:
    found = certified(subject, tmp_path)
    if found["verdict"] == "unknown" and (named := named_budget(found["why"])):  # on a busy machine
        found = certified(subject, tmp_path / "again", budget_seconds=named)
    assert ("upheld", "exactly-once", []) == (found["verdict"], found["grade"], found["findings"]), found["why"]


@pytest.mark.parametrize("subject", WRONG)
def test_a_sink_that_checks_on_one_snapshot_and_commits_on_another_is_violated(subject: str, tmp_path: Path) -> None:
    found = certified(subject, tmp_path)
    assert "violated" == found["verdict"], found["why"]
    repeated = [finding["schedule"] for finding in found["findings"] if finding["oracle"] == "O2"]
    assert [schedule for schedule in repeated if schedule.endswith("=stop")]


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize("kind", ["lose-power", "lose-bytes", "lose-names"])
def test_a_delta_append_to_a_local_disk_does_not_survive_a_loss_of_power(kind: str) -> None:
    """Its object store forces nothing on a local disk, unless asked to (apache/arrow-rs-object-store#661)."""
    contract = load(f"{SUBJECTS}/delta_tables.py:OneSnapshot")
    with (
        scratch_folder() as folder,
        process_runner(contract, Scratch(name="power", path=folder, shell="process")) as runner,
    ):
        result = runner.run(parse(f"sink[0].notify_complete.after#3={kind}"))
    assert (1, {"O8"}) == (result.power_took, {anomaly.oracle for anomaly in result.anomalies})
