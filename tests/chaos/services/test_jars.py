"""Jars are resolved once: by any installed resolver, completely or not at all, and by one process at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services import jars
from sinkproof.chaos.services.cache_folders import cache_folder
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA, VERSION
from sinkproof.chaos.services.running_services import await_exit
from sinkproof.chaos.services.service import ServiceUnavailable, silent

BROKER = jars.Artifact("org.example", "broker", "1.0")
LOGGING = jars.Artifact("org.example", "logging", "2.0")
BOTH = (BROKER, LOGGING)
GIVE = (
    'for word in "$@"; do case $word in -DoutputDirectory=*) out=${word#*=} ;; esac; done\n'
    "echo jar > $out/broker-1.0.jar; echo jar > $out/logging-2.0.jar; echo jar > $out/other-3.jar"
)
RESOLVE = f"""
from sinkproof.chaos.services import jars
print(jars.resolved("broker", {[tuple(artifact) for artifact in BOTH]!r} and [jars.Artifact(*one) for one in
    {[tuple(artifact) for artifact in BOTH]!r}], progress=print))
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The PATH: a shell, and no resolver. The cache is empty, and PySpark has no Ivy."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "mkfifo", "cat"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "ivy", lambda: None)
    return folder


def maven(tools: Path, body: str) -> Path:
    """Installs an `mvn` that appends each call to the returned file."""
    calls = tools / "calls"
    (tools / "mvn").write_text(f"#!/bin/sh\necho called >> {calls}\n{body}\n")
    (tools / "mvn").chmod(0o755)
    return calls


def test_a_second_run_needs_no_resolver(tools: Path) -> None:
    calls, lines = maven(tools, GIVE), []  # type: ignore[var-annotated]
    folder = jars.resolved("broker", BOTH, progress=lines.append)
    assert ["broker-1.0.jar", "logging-2.0.jar", "other-3.jar"] == sorted(jar.name for jar in folder.iterdir())
    assert f"3 jars are in {cache_folder()}" == lines[-1]
    (tools / "mvn").unlink()
    assert folder == jars.resolved("broker", BOTH, progress=lines.append)
    assert "called\n" == calls.read_text()


def test_the_output_of_a_failed_resolver_is_the_evidence(tools: Path) -> None:
    maven(tools, "echo '[INFO] Scanning'; echo '[ERROR] Could not find artifact broker:jar:1.0'; exit 1")
    with pytest.raises(ServiceUnavailable) as error:
        jars.resolved("broker", BOTH, progress=silent)
    assert "the jars of broker 1.0 and logging 2.0 cannot be resolved" == error.value.what
    assert "Maven: Could not find artifact broker:jar:1.0" in error.value.evidence
    assert "Ivy: PySpark, which contains it, is not installed" in error.value.evidence
    assert not jars.is_resolved("broker")


def test_missing_jars_after_exit_status_zero_are_noticed(tools: Path) -> None:
    maven(tools, GIVE.replace("echo jar > $out/logging-2.0.jar;", ""))
    with pytest.raises(ServiceUnavailable, match=r"logging-2\.0\.jar is missing"):
        jars.resolved("broker", BOTH, progress=silent)
    assert not jars.is_resolved("broker")


def test_without_a_resolver_the_command_that_installs_one_is_named(tools: Path) -> None:
    (tools / "apt-get").symlink_to("/bin/true")
    with pytest.raises(ServiceUnavailable, match="apt-get install -y maven"):
        jars.resolved("broker", BOTH, progress=silent)


def test_ivy_resolves_where_maven_fails(tools: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The incomplete result of Maven is discarded."""
    maven(tools, f"{GIVE}; exit 1")
    java = tools / "java"
    retrieve = 'for word in "$@"; do last=$word; done; out=${last%/*}; '
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 && exit 0\n'
        f'{retrieve} echo "$@" > $out/arguments-1.jar\n'
        "echo jar > $out/broker-1.0.jar; echo jar > $out/logging-2.0.jar\n"
    )
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(jars, "ivy", lambda: tmp_path / "ivy.jar")
    folder = jars.resolved("broker", BOTH, progress=silent)
    assert ["arguments-1.jar", "broker-1.0.jar", "logging-2.0.jar"] == sorted(jar.name for jar in folder.iterdir())
    assert "-jar" in (folder / "arguments-1.jar").read_text()


def test_of_two_concurrent_processes_one_resolves_for_both(tools: Path, tmp_path: Path) -> None:
    """The first waits in the middle of its work until the second has reported that it waits."""
    gate = tmp_path / "gate"
    calls = maven(tools, f"mkfifo {gate}; cat {gate}; {GIVE}")
    run = [sys.executable, "-c", RESOLVE]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as first:
        while not gate.exists():
            await_exit(first.pid, 0.05)
        with subprocess.Popen([sys.executable, "-u", *run[1:]], stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert "waiting" in second.stdout.readline()
            gate.open("w").close()
            assert str(cache_folder() / "broker") == second.stdout.read().strip()
    assert (0, 0) == (first.returncode, second.returncode)
    assert "called\n" == calls.read_text()


def test_a_killed_resolution_leaves_no_result(tools: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    maven(tools, f"{GIVE}; mkfifo {gate}; cat {gate}")
    with subprocess.Popen([sys.executable, "-c", RESOLVE], stdout=subprocess.DEVNULL) as process:
        while not gate.exists():
            await_exit(process.pid, 0.05)
        process.kill()
    gate.open("w").close()  # lets its resolver end
    assert not jars.is_resolved("broker")
    maven(tools, GIVE)
    folder = jars.resolved("broker", BOTH, progress=silent)
    assert [folder] == [path for path in cache_folder().iterdir() if path.is_dir()]


def test_ctrl_c_ends_the_resolver(tools: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    maven(tools, f"echo $$ > {tmp_path}/pid; mkfifo {gate}; cat {gate}")
    with subprocess.Popen([sys.executable, "-c", RESOLVE], stderr=subprocess.DEVNULL) as process:
        while not gate.exists():
            await_exit(process.pid, 0.05)
        process.send_signal(signal.SIGINT)
    assert_nothing_is_left(int((tmp_path / "pid").read_text()))


def test_ctrl_c_during_the_start_of_the_resolver_ends_it(tools: Path, tmp_path: Path) -> None:
    """The interrupt arrives when the resolver runs already, but Popen has not returned its pid."""
    gate = tmp_path / "gate"
    maven(tools, f"echo $$ > {tmp_path}/pid; mkfifo {gate}; cat {gate}")
    interrupted = f"""
import os, signal, subprocess

class Interrupted(subprocess.Popen):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        while not os.path.exists({str(gate)!r}):
            assert self.poll() is None
        os.kill(os.getpid(), signal.SIGINT)

subprocess.Popen = Interrupted
"""
    done = subprocess.run([sys.executable, "-c", interrupted + RESOLVE], stderr=subprocess.PIPE, text=True)
    assert "KeyboardInterrupt" in done.stderr
    assert_nothing_is_left(int((tmp_path / "pid").read_text()))


def assert_nothing_is_left(pid: int) -> None:
    deadline = Deadline(30)
    while Path(f"/proc/{pid}").exists() and not deadline.over:
        await_exit(pid, 0.05)
    assert not Path(f"/proc/{pid}").exists()
    assert [] == [path for path in cache_folder().iterdir() if path.is_dir()]


@pytest.mark.parametrize("version", ["9", "latest", "4.2.1; rm", "../4.2.1"])
def test_a_malformed_version_is_refused_before_any_request(tools: Path, version: str) -> None:
    with pytest.raises(ServiceUnavailable, match="is no version of Kafka"):
        KAFKA.install(version, progress=silent)


def test_without_java_the_command_that_installs_it_is_named(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tools / "apt-get").symlink_to("/bin/true")
    with pytest.raises(ServiceUnavailable, match=r"no `java` was found.*openjdk-17") as error:
        KAFKA.install(VERSION, progress=silent)
    assert error.value.next_step.endswith("apt-get install -y openjdk-17-jre-headless")


def test_an_unwritable_cache_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ServiceUnavailable, match="XDG_CACHE_HOME"):
        jars.resolved("broker", BOTH, progress=silent)
    assert os.path.isfile(tmp_path / "file")
