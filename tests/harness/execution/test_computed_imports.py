"""A module that a sink imports by a computed name is its own code, in every shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

CORE = """
from importlib import import_module

class Steps:
    def __init__(self, folder):
        self.folder = folder
    def append(self, batch):
        step = import_module(f"{__package__}.steps." + "_".join(["of", "files"]))
        step.append(self.folder, batch)
"""
STEP = """
def append(folder, batch):
    with open(folder / "rows", "a") as file:
        file.writelines(f"{row.split} {row.offset}\\n" for row in batch)
"""
CONTRACT = """
from %(package)s.core import Steps

class Mine:
    claims = "NO_LOSS"
    def sink(self, scratch):
        return Steps(scratch.path)
    def committed(self, scratch):
        return [tuple(map(int, line.split())) for line in (scratch.path / "rows").read_text().splitlines()]
"""


@pytest.mark.parametrize("shell", ["simulated", "process"])
def test_its_lines_are_known_and_the_target_is_empty_again(shell: str, tmp_path: Path) -> None:
    package = f"computed_{shell}"
    steps = tmp_path / package / "steps"
    steps.mkdir(parents=True)
    (tmp_path / package / "core.py").write_text(CORE)
    (steps / "of_files.py").write_text(STEP)
    (steps / "of_tables.py").write_text("def append(folder, batch): ...")  # never imported: no code of this sink
    (tmp_path / "contract.py").write_text(CONTRACT % {"package": package})
    (tmp_path / "target").mkdir()
    scratch = Scratch(name="computed", path=tmp_path / "target", shell=shell)
    contract = load(f"{tmp_path / 'contract.py'}:Mine")
    if shell == "simulated":
        with ScheduleRunner(contract, scratch) as runner:
            runner.find_own_files()
            check(runner)
    else:
        with process_runner(contract, scratch) as runner:
            check(runner)


def check(runner: ScheduleRunner) -> None:
    assert {"core.py", "steps/of_files.py"} <= {*runner.files.values()}
    assert "steps/of_tables.py" not in runner.files.values()
    assert [] == [*runner.scratch.path.iterdir()]
