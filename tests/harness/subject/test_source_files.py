"""Which files are a sink's own, and how points name them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.source_files import files_of, source_line

SINK = "class Sink:\n    def write(self, batch): ...\n"
CONTRACT = """
from sinkproof import Claim
from {package}.a.client import Sink as First
from {package}.b.client import Sink as Second

class Both:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch):
        sink = First()
        sink.second = Second()
        return sink
    def committed(self, scratch):
        return []
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package with two modules of one name, each in a folder of its own."""
    name = f"clients_of_{tmp_path.name}"  # a contract is loaded once in a process
    for folder in ("a", "b"):
        place = tmp_path / name / folder
        place.mkdir(parents=True)
        (place / "client.py").write_text(SINK)
        (place / "__init__.py").touch()
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / name / "contract.py").write_text(CONTRACT.format(package=name))
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def names_of(locator: str) -> dict[str, str]:
    given: Any = load(locator).given
    return files_of(given, given.sink(None))


def test_two_files_of_one_name_are_named_with_their_folders(package: str, tmp_path: Path) -> None:
    files = names_of(f"{package}.contract:Both")
    assert files[str(tmp_path / package / "a" / "client.py")] == "a/client.py"
    assert files[str(tmp_path / package / "b" / "client.py")] == "b/client.py"
    assert files[str(tmp_path / package / "a" / "__init__.py")] == "a/__init__.py"
    assert len(set(files.values())) == len(files)


def test_a_point_names_the_line_of_one_file_only(package: str) -> None:
    line = source_line("line(b/client.py:2)", names_of(f"{package}.contract:Both"))
    assert line is not None
    assert (line.file, line.number, line.text) == ("b/client.py", 2, "def write(self, batch): ...")


def test_files_of_two_packages_with_one_relative_name_get_different_names(tmp_path: Path) -> None:
    from sinkproof.subject.source_files import made_unique

    names = {str(tmp_path / one / "client.py"): "client.py" for one in ("left", "right")}
    assert list(made_unique(names).values()) == ["left/client.py", "right/client.py"]


def test_the_line_points_of_a_built_in_sink_name_files_relative_to_the_folder_of_the_adapters(tmp_path: Path) -> None:
    contract = load("memory/two-phase")
    files = files_of(contract.given, contract.sink(Scratch(name="names", path=tmp_path)))
    assert "strategies/two_phase.py" in files.values()
    assert len(set(files.values())) == len(files)


TARGET = """
from sinkproof import Claim

class Target:
    def publish(self, part, rows): ...
    def is_committed(self, part): return False
    def record(self, part): ...

class OfTarget:
    claims = Claim.EXACTLY_ONCE
    def sink(self, scratch):
        return Target()
    def committed(self, scratch):
        return []
"""


def test_lines_of_a_strategy_are_points_around_our_own_targets_only(tmp_path: Path) -> None:
    (tmp_path / "of_target.py").write_text(TARGET)
    scratch = Scratch(name="names", path=tmp_path)
    mine, ours = load(f"{tmp_path}/of_target.py:OfTarget"), load("files/write-ahead")
    assert ["of_target.py"] == sorted(files_of(mine.given, mine.sink(scratch)).values())
    assert "strategies/write_ahead.py" in files_of(ours.given, ours.sink(scratch)).values()


def test_a_struck_line_names_its_function_and_its_file_in_the_repository(package: str, tmp_path: Path) -> None:
    inside = "    def write(self, batch):\n        def inner():\n            return 1\n        return inner\n"
    text = f"TOP = 1\n\nclass Sink:\n{inside}"
    (tmp_path / package / "a" / "client.py").write_text(text)
    (tmp_path / package / ".git").mkdir()
    files = {str(tmp_path / package / "a" / "client.py"): "a/client.py"}
    lines = [source_line(f"line(a/client.py:{number})", files) for number in (1, 3, 4, 6, 7, 99)]
    functions = ["", "Sink", "Sink.write", "Sink.write.inner", "Sink.write", ""]
    assert functions == [line and line.function for line in lines]
    assert {"a/client.py"} == {line and line.path for line in lines}


def test_a_path_is_relative_to_the_repository_else_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sinkproof.subject.source_files import path_in_repository

    (tmp_path / "repository" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repository")
    assert "" == path_in_repository(str(tmp_path / "elsewhere.py"))
    monkeypatch.chdir(tmp_path)
    assert "sinks/mine.py" == path_in_repository(str(tmp_path / "sinks/mine.py"))
    assert "sinks/mine.py" == path_in_repository(str(tmp_path / "repository/sinks/mine.py"))
    installed = tmp_path / "repository/.venv/lib/site-packages/client/api.py"
    assert "" == path_in_repository(str(installed))
