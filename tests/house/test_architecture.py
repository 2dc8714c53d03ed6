"""ARCHITECTURE.md is short and true: the paths that it follows exist, hold the symbols it names, and can be read."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from sinkproof.chaos.points import CATALOGUE
from sinkproof.chaos.schedule import parse

from .import_rules import FLOORS

LINES_MOST: Final = 150
LINES_TO_READ_MOST: Final = 2_000  # an evening at 500 careful lines an hour
FOLLOWED: Final = ("Follow one row", "Follow one schedule")


@pytest.fixture
def document(project: Path) -> str:
    return (project / "ARCHITECTURE.md").read_text(encoding="utf-8")


def section(document: str, title: str) -> str:
    return document.split(f"\n## {title}\n")[1].split("\n## ")[0]


def words(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def files(text: str) -> list[str]:
    return list(dict.fromkeys(word for word in words(text) if word.endswith(".py")))


def symbols(text: str) -> list[str]:
    """`Subtask.rows()`, `judge()`, `TRANSITIONS`, `RunResult`; not the points, which begin with a small letter."""
    return [word.removesuffix("()") for word in words(text) if re.fullmatch(r"([A-Z]\w*(\.\w+\(\))?)|\w+\(\)", word)]


def defined_in(source: str) -> set[str]:
    """Names at the top of a module, and `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{step.name}" for step in node.body if isinstance(step, ast.FunctionDef)}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def missing_symbols(text: str, project: Path) -> list[str]:
    known = {name for file in files(text) for name in defined_in((project / file).read_text(encoding="utf-8"))}
    return [symbol for symbol in symbols(text) if symbol not in known]


def test_it_is_short(document: str) -> None:
    assert document.count("\n") <= LINES_MOST


@pytest.mark.parametrize("title", FOLLOWED)
def test_every_file_on_the_path_exists(title: str, document: str, project: Path) -> None:
    named = files(section(document, title))
    assert [] == [file for file in named if not (project / file).is_file()]
    assert len(named) >= 6


@pytest.mark.parametrize("title", FOLLOWED)
def test_every_symbol_on_the_path_is_in_one_of_its_files(title: str, document: str, project: Path) -> None:
    text = section(document, title)
    assert [] == missing_symbols(text, project)
    assert len(symbols(text)) >= 6


@pytest.mark.parametrize("title", FOLLOWED)
def test_the_files_on_the_path_can_be_read_in_an_evening(title: str, document: str, project: Path) -> None:
    sizes = {file: (project / file).read_text(encoding="utf-8").count("\n") for file in files(section(document, title))}
    assert sum(sizes.values()) <= LINES_TO_READ_MOST, sizes


@pytest.mark.parametrize("title", FOLLOWED)
def test_the_schedules_and_points_on_the_path_exist(title: str, document: str) -> None:
    named = words(section(document, title))
    faults = [fault for word in named if "=" in word for fault in parse(word).faults]
    points = {fault.point for fault in faults} | {word for word in named if re.fullmatch(r"\w+\.(before|after)", word)}
    assert faults
    assert set() == points - set(CATALOGUE)


def test_the_layers_are_those_of_the_rule(document: str) -> None:
    diagram = section(document, "Layers").split("```text\n")[1].split("```")[0].splitlines()
    shown = [set(re.split(r"\s{2,}", line)[0].split(" · ")) for line in diagram]
    floors = [{part.removeprefix("harness/").removesuffix(".py") for part in floor} for floor in FLOORS]
    assert shown == [floor for floor in reversed(floors) if "__init__" not in floor]


def test_a_symbol_that_is_nowhere_is_noticed(project: Path) -> None:
    assert ["judge_twice"] == missing_symbols("`judge()` and `judge_twice()` in `harness/judging/oracle.py`", project)
