"""Each mutant's line exists in the code. Otherwise only `make mutants` would show that a line has changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutant import Mutant
from mutant_list import MUTANTS
from survivors import SURVIVORS

MUTANTS_LEAST = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_line_of_a_mutant_exists_once(mutant: Mutant, project: Path) -> None:
    assert 1 == (project / mutant.file).read_text().count(mutant.old)
    assert mutant.old != mutant.new


def test_there_are_enough_of_them() -> None:
    assert MUTANTS_LEAST <= len(MUTANTS)
    assert len(MUTANTS) == len({mutant.name for mutant in MUTANTS})


@pytest.mark.parametrize("file", SURVIVORS)
def test_the_lines_of_survivors_exist(file: str, project: Path) -> None:
    lines = {line.strip() for line in (project / file).read_text().splitlines()}
    assert [] == [line for line in SURVIVORS[file] if line not in lines]
    assert all(SURVIVORS[file].values())
