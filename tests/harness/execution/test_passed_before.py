"""A fault is injected after the preceding one, or not at all: a point that was passed before is no place for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.zoo_campaigns import locator_of


@pytest.mark.slow
def test_what_was_passed_before_the_preceding_fault_is_not_struck(tmp_path: Path) -> None:
    contract = load(locator_of("renamed_files:LinkedFilesUncopied"))
    with process_runner(contract, Scratch(name="before", path=tmp_path, shell="process")) as runner:
        for kind in ("error", "unanswered", "terminate"):
            before, after = (
                runner.run(parse(f"sink[0].snapshot.after#2=kill sink[0].file.create#{occurrence}={kind}"))
                for occurrence in (1, 4)
            )
            assert ["kill"] == [fault.kind for fault in before.struck], kind
            assert ["kill", kind] == [fault.kind for fault in after.struck], kind
