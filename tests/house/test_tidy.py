"""Every file keeps the house rules, and every rule can find an offence."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from . import code_rules, import_rules, name_rules, word_rules  # noqa: F401  # each fills RULES
from .house_rules import PACKAGES, RULES, source

TEXTS: Final = {"", ".py", ".md", ".toml", ".txt", ".json", ".j2", ".js", ".css", ".html", ".xml", ".yml"}
TOP_LEVEL: Final = {
    *(".ci", ".gitignore", "Makefile", "pyproject.toml", "tests", *PACKAGES),
    *("README.md", "CONTRACT.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"),
    *("SECURITY.md", "CITATION.cff"),
}


def test_the_project_keeps_the_rules(project: Path, project_files: list[str]) -> None:
    """One test for all of them: it reads and parses every file, which takes longer than most rules."""
    paths = [path for path in project_files if Path(path).suffix in TEXTS]
    sources = [source(path, (project / path).read_text(encoding="utf-8")) for path in paths]
    found = {f"{name}: {rule.mend}": offences for name, rule in RULES.items() if (offences := rule.offences(sources))}
    assert not found, "".join("\n  ".join([text, *offences]) + "\n" for text, offences in found.items())


@pytest.mark.parametrize("name", RULES)
def test_the_rule_can_find_an_offence(name: str) -> None:
    assert RULES[name].convicts_the_guilty()


def test_the_top_level_holds_only_what_belongs_there(project_files: list[str]) -> None:
    found = {path.split("/")[0] for path in project_files}
    assert [] == sorted(found - TOP_LEVEL), "these belong into one of the folders, or into .gitignore"
