"""Every file keeps the house rules, and every rule can find an offence."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from . import code_rules, import_rules, name_rules, word_rules  # noqa: F401  # each fills RULES
from .house_rules import PACKAGES, RULES, Source, source

TEXTS: Final = {"", ".py", ".md", ".toml", ".txt", ".json", ".j2", ".js", ".css", ".html", ".xml", ".yml"}
TOP_LEVEL: Final = {
    *(".ci", ".gitignore", "Makefile", "pyproject.toml", "tests", *PACKAGES),
    *("README.md", "CONTRACT.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"),
    *("SECURITY.md", "CITATION.cff"),
}


@cache
def source_of(path: Path, name: str) -> Source:
    return source(name, path.read_text(encoding="utf-8"))


def assert_none(offences: list[str], mend: str) -> None:
    assert not offences, "\n  ".join([mend, *offences])


@pytest.mark.parametrize("name", RULES)
def test_the_project_keeps_the_rule(name: str, project: Path, project_files: list[str]) -> None:
    sources = [source_of(project / path, path) for path in project_files if Path(path).suffix in TEXTS]
    assert_none(RULES[name].offences(sources), RULES[name].mend)


@pytest.mark.parametrize("name", RULES)
def test_the_rule_can_find_an_offence(name: str) -> None:
    assert RULES[name].convicts_the_guilty()


def test_the_top_level_holds_only_what_belongs_there(project_files: list[str]) -> None:
    found = {path.split("/")[0] for path in project_files}
    assert_none(sorted(found - TOP_LEVEL), "These belong into one of the folders, or into .gitignore:")
