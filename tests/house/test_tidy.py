"""Every file keeps the house rules, and every rule can find something."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from .house_rules import PACKAGES, RULES, Source

TOP_LEVEL: Final = {
    *(".ci", ".gitignore", "Makefile", "pyproject.toml", "tests", *PACKAGES),
    *("README.md", "CONTRACT.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"),
}


@cache
def source_of(path: Path, name: str) -> Source:
    text = path.read_text(encoding="utf-8")
    return Source(name, text, ast.parse(text if name.endswith(".py") else ""))


def assert_none(offences: list[str], mend: str) -> None:
    assert not offences, "\n  ".join([mend, *offences])


@pytest.mark.parametrize("name", RULES)
def test_the_code_keeps_the_rule(name: str, project: Path, project_files: list[str]) -> None:
    sources = [source_of(project / path, path) for path in project_files if path.endswith(".py")]
    assert_none([line for source in sources for line in RULES[name].offences(source)], RULES[name].mend)


@pytest.mark.parametrize("name", RULES)
def test_the_rule_can_find_something(name: str) -> None:
    guilty = RULES[name].guilty
    assert [] != list(RULES[name].find(Source("chaos/guilty.py", guilty, ast.parse(guilty))))


def test_no_other_text_names_a_registry_or_a_machine(project: Path, project_files: list[str]) -> None:
    kinds = {"", ".md", ".toml", ".txt", ".json", ".j2", ".css", ".html", ".xml"}
    texts = [source_of(project / path, path) for path in project_files if Path(path).suffix in kinds]
    rule_for_texts = RULES["of_one_machine"]
    assert_none([line for text in texts for line in rule_for_texts.offences(text)], rule_for_texts.mend)


def test_the_top_level_holds_only_what_belongs_there(project_files: list[str]) -> None:
    found = {path.split("/")[0] for path in project_files}
    assert_none(sorted(found - TOP_LEVEL), "These belong into one of the folders, or into .gitignore:")
