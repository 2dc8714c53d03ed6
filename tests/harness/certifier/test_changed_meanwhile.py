"""What has changed between the beginning of a certification and its end is named: nothing of it is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sinkproof.campaign.task import Task
from sinkproof.certifier.circumstances import circumstances_of, differing
from sinkproof.certifier.result_store import opened
from sinkproof.subject.loading import load

from .test_result_store import MINE, OUTCOME


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "kept_sink.py").write_text(MINE)
    return folder


@pytest.mark.parametrize("change", ["new", "longer", "gone"])
def test_a_file_beside_the_contract_that_changes_meanwhile_is_named(project: Path, change: str) -> None:
    contract = load(f"{project}/kept_sink.py:Mine")
    task = Task(locator=contract.locator, shell="process", budget_seconds=1)
    file = project / "output.txt"
    if change != "new":
        file.write_text("text")
    with opened(project / ".sinkproof" / "kept") as store:
        assert store.find(task, contract) is None
        Path(store.recorded(task).journal).touch()
        if change == "gone":
            file.unlink()
        else:
            file.write_text("more text")
        store.take(task, OUTCOME, contract)
        (unkept,) = store.unkept
    assert f"{file} has changed meanwhile" in unkept


def test_the_file_that_the_command_prints_into_is_no_input(project: Path) -> None:
    contract = load(f"{project}/kept_sink.py:Mine")
    task = Task(locator=contract.locator, shell="process", budget_seconds=1)
    before = circumstances_of(task, contract, day="today", version="1")
    file, output = project / "output.txt", os.dup(1)
    with file.open("w") as printed:
        os.dup2(printed.fileno(), 1)
        try:
            while_printing = circumstances_of(task, contract, day="today", version="1")
        finally:
            os.dup2(output, 1)
            os.close(output)
    assert "" == differing(before, while_printing)
    assert str(file) == differing(before, circumstances_of(task, contract, day="today", version="1"))


def test_a_variable_that_changes_meanwhile_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = load(f"{project}/kept_sink.py:Mine")
    task = Task(locator=contract.locator, shell="process", budget_seconds=1)
    before = circumstances_of(task, contract, day="today", version="1")
    assert "" == differing(before, circumstances_of(task, contract, day="today", version="1"))
    monkeypatch.setenv("MY_FLAG", "1")
    assert "variables" == differing(before, circumstances_of(task, contract, day="today", version="1"))
