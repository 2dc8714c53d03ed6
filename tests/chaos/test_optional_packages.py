"""The commands that install libraries name the libraries, as the project declares them."""

from __future__ import annotations

import ast
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from sinkproof.chaos import optional_packages
from sinkproof.chaos.optional_packages import install_command
from sinkproof.cli import doctor


def declared(project: Path) -> dict[str, list[str]]:
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = table["optional-dependencies"]
    return extras


def same(requirement: str) -> set[str]:
    """Metadata has the bounds of a version in another order."""
    name = requirement[: min(requirement.find(sign) for sign in "<>=" if sign in requirement)]
    return {name, *requirement.removeprefix(name).split(",")}


@pytest.mark.parametrize("extra", ["spark", "kafka", "cassandra", "toxiproxy", "container", "metrics", "remote"])
def test_the_command_names_what_the_extra_declares(extra: str, project: Path) -> None:
    pip, install, *libraries = shlex.split(install_command(extra))
    assert ("pip", "install") == (pip, install)
    assert sorted(map(same, declared(project)[extra]), key=sorted) == sorted(map(same, libraries), key=sorted)


@pytest.mark.slow
def test_every_extra_that_the_product_asks_for_is_declared(project: Path, project_files: list[str]) -> None:
    asked = {
        node.args[0].value
        for path in project_files
        if path.endswith(".py") and not path.startswith("tests/")
        for node in ast.walk(ast.parse((project / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install_command"
        if isinstance(node.args[0], ast.Constant)
    }
    assert {"spark", "kafka", "toxiproxy", "container", "metrics", "remote"} == asked
    assert {*asked, *doctor.CLIENTS.values()} <= set(declared(project))


def test_without_metadata_the_checkout_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_packages, "DISTRIBUTION", "a-package-that-is-not-installed")
    assert "pip install '.[kafka]'" == install_command("kafka")


def test_the_doctor_names_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", absent)
    finding = doctor._client("kafka-python")
    assert (doctor.OPTIONAL, f"Run: {install_command('kafka')}") == (finding.state, finding.next_step)
    assert "kafka-python" in finding.next_step


def test_without_pyspark_the_doctor_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert f"PySpark is not installed. Run: {install_command('spark')}" == doctor.spark_problem()


def test_documents_name_the_libraries_of_today(project: Path) -> None:
    assert f"`{install_command('remote')}`" in (project / "harness/pipeline/PIPELINES.md").read_text(encoding="utf-8")
