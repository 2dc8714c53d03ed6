"""Every row has a mutant that can still be applied. run_row_mutants.py runs the tests against each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from row_mutants import MUTANTS

from sinkproof.explain.semantics_rows import ROWS

sys.path.pop(0)


def test_every_row_has_a_mutant() -> None:
    assert [] == sorted(ROWS.keys() - MUTANTS.keys()), "Add one to tests/harness/explain/row_mutants.py"
    assert [] == sorted(MUTANTS.keys() - ROWS.keys())


@pytest.mark.parametrize("row", MUTANTS)
def test_the_line_that_a_mutant_changes_occurs_exactly_once(row: str, project: Path) -> None:
    mutant = MUTANTS[row]
    text = (project / mutant.file).read_text(encoding="utf-8")
    assert 1 == text.count(mutant.old), f"{mutant.file}: {mutant.old!r}; choose another line for {row}"
    assert mutant.old != mutant.new


@pytest.mark.parametrize("row", MUTANTS)
def test_a_test_of_explain_is_marked_with_each_row(row: str, project: Path) -> None:
    marks = [path for path in (project / "tests").rglob("test_*.py") if f'row("{row}")' in path.read_text()]
    assert [path for path in marks if path.parent.name == "explain"]
