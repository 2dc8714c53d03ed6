"""Chromium for the tests of the report: found, installed, or named as what is missing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

APT: str = "apt-get install -y --no-install-recommends chromium"
Script = Callable[..., subprocess.CompletedProcess[str]]


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH that holds what the script needs, and nothing that installs or browses."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "tail", "cp"):
        (folder / name).symlink_to(str(shutil.which(name)))
    program(folder, "id", "echo 0")
    return folder


@pytest.fixture
def script(project: Path, tools: Path) -> Script:
    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        chosen = {"PATH": str(tools), **environment}
        return subprocess.run(["/bin/sh", str(project / ".ci/chromium")], env=chosen, capture_output=True, text=True)

    return run


def apt_get(tools: Path, *, log: Path, works_after: str = "") -> None:
    """One that installs a browser, perhaps only when its lists are new, and writes down what it was asked."""
    package = tools / "package"
    program(tools, "package", "echo Chromium 140")
    listed = f'case "$(cat {log})" in *{works_after}*) ;; *) exit 100 ;; esac\n' if works_after else ""
    (tools / "cat").symlink_to(str(shutil.which("cat")))
    program(
        tools,
        "apt-get",
        f'echo "$*" >> {log}\ncase "$*" in update*) exit 0 ;; esac\n'
        f'{listed}case "$*" in *chromium) cp {package} {tools}/chromium; exit 0 ;; esac',
    )


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_one_that_is_there_is_passed_over_in_silence(script: Script, tools: Path, name: str) -> None:
    program(tools, name, "echo Chromium 140")
    done = script()
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("works_after", ["", "update"])
def test_a_missing_one_is_installed_and_said_in_one_line(
    script: Script, tools: Path, tmp_path: Path, works_after: str
) -> None:
    apt_get(tools, log=tmp_path / "asked", works_after=works_after)
    done = script()
    assert (0, "") == (done.returncode, done.stderr)
    assert set(done.stdout.splitlines()) == {f"sinkproof: {APT} (no Chromium was found)"}


def test_one_that_only_says_how_to_install_another_is_none(script: Script, tools: Path, tmp_path: Path) -> None:
    program(tools, "chromium-browser", "echo use snap; exit 1")
    apt_get(tools, log=tmp_path / "asked")
    done = script()
    assert 0 == done.returncode, done.stderr
    assert APT in done.stdout


def test_who_may_not_install_is_told_what_to_run(script: Script, tools: Path, tmp_path: Path) -> None:
    apt_get(tools, log=tmp_path / "asked")
    program(tools, "id", "echo 1000")
    done = script()
    assert (1, "") == (done.returncode, done.stdout)
    assert f"sinkproof: no Chromium was found. Run: sudo {APT}\n" == done.stderr
    assert not (tmp_path / "asked").exists()


def test_an_installation_that_does_not_help_is_no_success(script: Script, tools: Path, tmp_path: Path) -> None:
    apt_get(tools, log=tmp_path / "asked", works_after="never")
    done = script()
    assert 1 == done.returncode
    assert "that failed" in done.stderr


def test_without_a_package_manager_there_is_a_next_step(script: Script) -> None:
    done = script()
    assert 1 == done.returncode
    assert "CHROMIUM=/path/to/chromium" in done.stderr


def test_a_wrong_name_is_said_and_nothing_is_installed_beside_it(script: Script, tools: Path, tmp_path: Path) -> None:
    apt_get(tools, log=tmp_path / "asked")
    done = script(CHROMIUM=str(tmp_path / "none"))
    assert 1 == done.returncode
    assert f"CHROMIUM is {tmp_path}/none, which does not run. Run: unset CHROMIUM" in done.stderr
    assert not (tmp_path / "asked").exists()
