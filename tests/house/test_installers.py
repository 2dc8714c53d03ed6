"""Java for Spark and Chromium for the tests of the report: found, installed, or named as what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ..support.bare_machine import CHROMIUM, JAVA, Bare, Installer, java, program


@pytest.fixture
def bare(project: Path, tmp_path: Path) -> Callable[[Installer], Bare]:
    return lambda installer: Bare(installer, script=project / ".ci" / installer.name, tmp_path=tmp_path)


both = pytest.mark.parametrize("installer", [JAVA, CHROMIUM], ids=lambda installer: installer.name)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1", "17-ea"])
def test_the_installer_prints_nothing_for_a_java_that_is_new_enough(bare: Callable[..., Bare], version: str) -> None:
    machine = bare(JAVA)
    java(machine.tools, version)
    done = machine.run()
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_the_installer_prints_nothing_for_a_browser_that_works(bare: Callable[..., Bare], name: str) -> None:
    machine = bare(CHROMIUM)
    program(machine.tools, name, "echo Chromium 140")
    done = machine.run()
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@both
def test_a_missing_program_is_installed_with_one_line_of_output(
    bare: Callable[..., Bare], installer: Installer
) -> None:
    machine = bare(installer)
    machine.apt_get()
    done = machine.run()
    assert (0, "") == (done.returncode, done.stderr)
    assert f"sinkproof: {installer.apt} (no {installer.what} was found)\n" == done.stdout
    assert f"{installer.apt.removeprefix('apt-get ')}\n" == machine.asked.read_text()


@pytest.mark.parametrize(("version", "found"), [("11.0.2", "Java 11 was found"), ("1.8.0_392", "Java 8 was found")])
def test_a_java_that_is_too_old_is_named(bare: Callable[..., Bare], version: str, found: str) -> None:
    machine = bare(JAVA)
    java(machine.tools, version)
    machine.apt_get()
    done = machine.run()
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith(f"sinkproof: {JAVA.apt} ({found}")


def test_a_browser_stub_that_only_prints_a_hint_is_no_browser(bare: Callable[..., Bare]) -> None:
    machine = bare(CHROMIUM)
    program(machine.tools, "chromium-browser", "echo use snap; exit 1")
    machine.apt_get()
    done = machine.run()
    assert 0 == done.returncode, done.stderr
    assert CHROMIUM.apt in done.stdout


@both
def test_outdated_package_lists_are_updated(bare: Callable[..., Bare], installer: Installer) -> None:
    machine = bare(installer)
    machine.apt_get(works_after="update")
    done = machine.run()
    assert (0, "") == (done.returncode, done.stderr)
    assert {f"sinkproof: {installer.apt} (no {installer.what} was found)"} == set(done.stdout.splitlines())


def test_a_system_without_the_wanted_java_gets_its_default_java(bare: Callable[..., Bare]) -> None:
    machine = bare(JAVA)
    machine.apt_get(works_for="*default-jre*")
    done = machine.run()
    assert 0 == done.returncode, done.stderr
    assert "sinkproof: apt-get install -y default-jre-headless" in done.stdout
    assert "update -qq" in machine.asked.read_text()


@both
def test_a_user_without_permission_gets_the_command_to_run(bare: Callable[..., Bare], installer: Installer) -> None:
    machine = bare(installer)
    machine.apt_get()
    program(machine.tools, "id", "echo 1000")
    done = machine.run()
    assert (1, "") == (done.returncode, done.stdout)
    assert f"sinkproof: no {installer.what} was found. Run: sudo {installer.apt}\n" == done.stderr
    assert not machine.asked.exists()


@both
def test_an_installation_that_fails_says_why(bare: Callable[..., Bare], installer: Installer) -> None:
    machine = bare(installer)
    machine.apt_get(works_for="nothing")
    done = machine.run()
    assert 1 == done.returncode
    assert "that failed: E: Unable to locate package" in done.stderr


@both
def test_an_installation_that_does_not_help_is_no_success(bare: Callable[..., Bare], installer: Installer) -> None:
    machine = bare(installer)
    machine.apt_get(brings_what_works=False)
    done = machine.run()
    assert 1 == done.returncode
    assert f"there is still no {installer.what}" in done.stderr


@both
def test_without_a_package_manager_there_is_a_next_step(bare: Callable[..., Bare], installer: Installer) -> None:
    done = bare(installer).run()
    assert 1 == done.returncode
    assert f"{installer.variable}=/path/to/{installer.name}" in done.stderr


@both
def test_a_wrong_path_in_the_variable_is_reported_and_nothing_is_installed(
    bare: Callable[..., Bare], installer: Installer, tmp_path: Path
) -> None:
    machine = bare(installer)
    machine.apt_get()
    done = machine.run(**{installer.variable: str(tmp_path / "none")})
    assert 1 == done.returncode
    assert f"{installer.variable} is {tmp_path}/none" in done.stderr
    assert f"Run: unset {installer.variable} (then, if there is no other: {installer.apt})" in done.stderr
    assert not machine.asked.exists()
