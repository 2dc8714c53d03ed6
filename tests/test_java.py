"""Java for Spark: found, or named as what is missing; and sessions that come and go without a trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.reference_engine.shells.spark import class_archive
from sinkproof.reference_engine.shells.spark.java import java_problem

APT: str = "apt-get install -y openjdk-17-jre-headless"
Script = Callable[..., subprocess.CompletedProcess[str]]


def program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def java(folder: Path, version: str) -> None:
    program(folder, "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH that holds what the script needs, and nothing that installs or answers as Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "sed", "head", "tail"):
        (folder / name).symlink_to(str(shutil.which(name)))
    program(folder, "id", "echo 0")
    return folder


@pytest.fixture
def script(project: Path, tools: Path) -> Script:
    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        chosen = {"PATH": str(tools), **environment}
        return subprocess.run(["/bin/sh", str(project / ".ci/java")], env=chosen, capture_output=True, text=True)

    return run


def apt_get(tools: Path, *, log: Path, works_for: str = "*", version: str = "17.0.15") -> None:
    """One that installs a Java of this version for requests like `works_for`, and writes down what it was asked."""
    java(tools / "package", version)
    program(
        tools,
        "apt-get",
        f'echo "$*" >> {log}\n'
        f'case "$*" in update*) exit 0 ;; {works_for}) /bin/cp {tools}/package/java {tools}/java; exit 0 ;; esac\n'
        'echo "E: Unable to locate package"; exit 100',
    )


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1", "17-ea"])
def test_a_java_that_is_new_enough_is_passed_over_in_silence(script: Script, tools: Path, version: str) -> None:
    java(tools, version)
    done = script()
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("version", "found"),
    [("", "no Java >= 17 was found"), ("11.0.2", "Java 11 was found"), ("1.8.0_392", "Java 8 was found")],
)
def test_a_missing_one_is_installed_and_said_in_one_line(
    script: Script, tools: Path, tmp_path: Path, version: str, found: str
) -> None:
    if version:
        java(tools, version)
    apt_get(tools, log=tmp_path / "asked")
    done = script()
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith(f"sinkproof: {APT} ({found}")
    assert 1 == done.stdout.count("\n")
    assert "install -y openjdk-17-jre-headless\n" == (tmp_path / "asked").read_text()


def test_a_system_without_that_package_gets_its_own(script: Script, tools: Path, tmp_path: Path) -> None:
    apt_get(tools, log=tmp_path / "asked", works_for="*default-jre*", version="21.0.1")
    done = script()
    assert 0 == done.returncode, done.stderr
    assert "sinkproof: apt-get install -y default-jre-headless" in done.stdout
    assert "update -qq" in (tmp_path / "asked").read_text()


def test_who_may_not_install_is_told_what_to_run(script: Script, tools: Path, tmp_path: Path) -> None:
    apt_get(tools, log=tmp_path / "asked")
    program(tools, "id", "echo 1000")
    done = script()
    assert (1, "") == (done.returncode, done.stdout)
    assert f"sinkproof: no Java >= 17 was found. Run: sudo {APT}\n" == done.stderr
    assert not (tmp_path / "asked").exists()


def test_an_installation_that_fails_says_why(script: Script, tools: Path, tmp_path: Path) -> None:
    apt_get(tools, log=tmp_path / "asked", works_for="nothing")
    done = script()
    assert 1 == done.returncode
    assert "E: Unable to locate package" in done.stderr


def test_an_installation_that_does_not_help_is_no_success(script: Script, tools: Path, tmp_path: Path) -> None:
    apt_get(tools, log=tmp_path / "asked", version="11.0.2")
    done = script()
    assert 1 == done.returncode
    assert "there is still no Java >= 17" in done.stderr


def test_without_a_package_manager_there_is_a_next_step(script: Script) -> None:
    done = script()
    assert 1 == done.returncode
    assert "JAVA_HOME=/path/to/java" in done.stderr


def test_an_old_java_home_is_named_and_nothing_is_installed_beside_it(
    script: Script, tools: Path, tmp_path: Path
) -> None:
    java(tools, "17.0.1")
    java(tmp_path / "old/bin", "11.0.2")
    apt_get(tools, log=tmp_path / "asked")
    done = script(JAVA_HOME=str(tmp_path / "old"))
    assert 1 == done.returncode
    assert f"JAVA_HOME is {tmp_path}/old. Run: unset JAVA_HOME" in done.stderr
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_python_finds_the_java_that_spark_will_use(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java(tools, "11.0.2")
    java(tmp_path / "home/bin", version)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert "" == java_problem()


@pytest.mark.parametrize(("version", "found"), [("", "no `java` was found"), ("11.0.2", "is version 11.0.2")])
def test_python_names_the_command_too(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, version: str, found: str
) -> None:
    if version:
        java(tools, version)
    apt_get(tools, log=tmp_path / "asked")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    problem = java_problem()
    assert found in problem
    assert APT in problem


def test_a_java_that_says_nothing_of_its_version_is_a_problem(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools, "java", "echo hello")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "does not say which version it is" in java_problem()


@pytest.mark.parametrize("obstacle", ["a file in its place", "an earlier failure"])
def test_no_archive_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if obstacle == "a file in its place":
        (tmp_path / "sinkproof").write_text("")
    else:
        folder = class_archive._archive_folder(())
        folder.mkdir(parents=True)
        (folder / class_archive.FAILED).touch()
    class_archive.prepare_archive(())
    assert [] == class_archive.archive_options(())


SESSION = """
import os, sys
from pathlib import Path
from sinkproof.reference_engine.shells.spark.session import start_session, stop_session

folder = Path(sys.argv[1])
session = start_session(folder=folder, settings={"spark.driver.extraJavaOptions": "-Dmine=1"})
java = session._jvm.System
print(session.sparkContext._gateway.proc.pid, java.getProperty("mine"), java.getProperty("user.dir"), flush=True)
match sys.argv[2]:
    case "raise":
        raise ValueError
    case "kill java":
        os.kill(session.sparkContext._gateway.proc.pid, 9)
        stop_session(session)
        session = start_session(folder=folder)
        print(session.range(3).count())
    case "wait":
        sys.stdin.read()
"""


@pytest.fixture
def session(tmp_path: Path) -> Callable[[str], subprocess.Popen[str]]:
    def start(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SESSION, str(tmp_path), how]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    return start


def first_words(process: subprocess.Popen[str]) -> Mapping[str, str]:
    assert process.stdout is not None
    return dict(zip(("java", "mine", "folder"), process.stdout.readline().split(), strict=True))


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_session_is_in_its_folder_and_ends_with_an_exception(
    session: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    with session("raise") as process:
        told = first_words(process)
    assert ("1", str(tmp_path)) == (told["mine"], told["folder"])
    assert 1 == process.returncode
    assert not is_running(told["java"])


@pytest.mark.slow
def test_a_session_can_follow_one_whose_java_was_killed(session: Callable[[str], subprocess.Popen[str]]) -> None:
    with session("kill java") as process:
        told = first_words(process)
        assert process.stdout is not None
        assert "3\n" == process.stdout.read()
    assert not is_running(told["java"])


@pytest.mark.slow
def test_the_java_of_a_killed_python_ends_by_itself(session: Callable[[str], subprocess.Popen[str]]) -> None:
    with session("wait") as process:
        told = first_words(process)
        os.kill(process.pid, 9)
    deadline = Deadline(10)
    while is_running(told["java"]) and not deadline.over:
        os.sched_yield()
    assert not is_running(told["java"])
