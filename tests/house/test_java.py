"""Java for Spark: found or reported as missing; and Spark sessions that leave no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.reference_engine.shells.spark import spark_class_archive as class_archive
from sinkproof.reference_engine.shells.spark.java_installation import java_problem

from ..support.bare_machine import JAVA, bare_tools, java, program
from ..support.process_states import is_alive


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return bare_tools(tmp_path)


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
def test_a_missing_java_is_reported_with_the_command_that_installs_it(
    tools: Path, monkeypatch: pytest.MonkeyPatch, *, version: str, found: str
) -> None:
    if version:
        java(tools, version)
    program(tools, "apt-get", "exit 100")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    problem = java_problem()
    assert found in problem
    assert JAVA.apt in problem


def test_a_java_without_a_version_is_a_problem(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tools, "java", "echo hello")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "does not say which version it is" in java_problem()


@pytest.mark.parametrize("obstacle", ["a file in its place", "an earlier failure"])
def test_a_session_starts_without_a_class_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
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
from sinkproof.reference_engine.shells.spark.spark_session import start_session, stop_session

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
    def start(ending: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SESSION, str(tmp_path), ending]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    return start


def first_words(process: subprocess.Popen[str]) -> Mapping[str, str]:
    assert process.stdout is not None
    return dict(zip(("java", "mine", "folder"), process.stdout.readline().split(), strict=True))


@pytest.mark.slow
def test_a_session_runs_in_its_folder_and_ends_with_an_exception(
    session: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    with session("raise") as process:
        words = first_words(process)
    assert ("1", str(tmp_path)) == (words["mine"], words["folder"])
    assert 1 == process.returncode
    assert not is_alive(words["java"])


@pytest.mark.slow
@pytest.mark.longer
def test_a_session_starts_after_the_java_of_the_last_one_was_killed(
    session: Callable[[str], subprocess.Popen[str]],
) -> None:
    with session("kill java") as process:
        words = first_words(process)
        assert process.stdout is not None
        assert "3\n" == process.stdout.read()
    assert not is_alive(words["java"])


@pytest.mark.slow
def test_the_java_of_a_killed_python_ends_by_itself(session: Callable[[str], subprocess.Popen[str]]) -> None:
    with session("wait") as process:
        words = first_words(process)
        os.kill(process.pid, 9)
    deadline = Deadline(10)
    while is_alive(words["java"]) and not deadline.over:
        os.sched_yield()
    assert not is_alive(words["java"])
