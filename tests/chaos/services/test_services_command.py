"""`sinkproof services` and `sinkproof doctor`, as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sinkproof.chaos.services.jvm import Installation
from sinkproof.chaos.services.kafka.broker_readiness import request_metadata
from sinkproof.chaos.services.running_services import ServiceHandle, running
from sinkproof.cli.doctor import MachineFinding
from sinkproof.cli.doctor_command import doctor

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(homes: Path, tmp_path: Path, command_environment: dict[str, str]) -> Command:
    """Runs sinkproof with the folders of this test."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        chosen = {**os.environ, "PATH": command_environment["PATH"], **environment}
        line = [sys.executable, "-m", "sinkproof", *arguments]
        return subprocess.run(line, cwd=tmp_path, env=chosen, capture_output=True, text=True)

    return run


def test_a_broker_runs_from_start_to_stop(command: Command, installation: Installation) -> None:
    started = command("services", "start", "kafka")
    assert 0 == started.returncode, started.stderr
    endpoint = started.stdout.strip()
    assert 1 == len(request_metadata(endpoint, seconds=30).brokers)
    again = command("services", "start", "kafka")
    assert (0, endpoint, True) == (again.returncode, again.stdout.strip(), "runs already" in again.stderr)
    other = command("services", "start", "kafka", "--nodes", "3")
    assert (3, True) == (other.returncode, "sinkproof services stop kafka" in other.stderr)
    [row] = json.loads(command("services", "status", "--json").stdout)
    assert (endpoint, 0, 1, "") == (row["endpoint"], row["owner"], row["nodes"], row["died"])
    rows = json.loads(command("doctor", "--json").stdout)
    assert "ok" == next(row["state"] for row in rows if row["name"] == "a running Kafka")
    stopped = command("services", "stop")
    assert (0, True) == (stopped.returncode, f"{endpoint} is stopped" in stopped.stderr)
    assert "nothing runs\n" == command("services", "status").stdout
    assert not Path(row["folder"]).exists()


def test_a_dead_broker_is_reported_and_can_be_stopped(command: Command, installation: Installation) -> None:
    assert 0 == command("services", "start").returncode
    [entry] = running("kafka")
    status = ServiceHandle(entry).status_of("node-1")
    assert status is not None
    subprocess.run(["kill", "-KILL", str(status.pid)], check=True)
    assert ServiceHandle(entry).folder.exists()
    assert "died by itself: node-1 ended with status -9" in command("services", "status").stdout
    assert 2 == command("doctor").returncode
    assert 0 == command("services", "stop").returncode


@pytest.mark.slow
def test_each_kind_is_started_by_its_name_and_stop_ends_all_kinds(command: Command) -> None:
    started = command("services", "start", "toxiproxy", "--json")
    assert 0 == started.returncode, started.stderr
    row = json.loads(started.stdout)
    assert ("toxiproxy", 1) == (row["kind"], len(row["living"]))
    assert [row] == json.loads(command("services", "status", "--json").stdout)
    stopped = command("services", "stop")
    assert (0, f"toxiproxy at {row['endpoint']} is stopped") == (stopped.returncode, stopped.stderr.strip()[11:])
    assert "nothing runs\n" == command("services", "status").stdout


def test_a_port_with_several_services_is_refused(command: Command) -> None:
    run = command("services", "start", "kafka", "toxiproxy", "--port", "21000")
    assert (3, True) == (run.returncode, "--port is for one service" in run.stderr)


def test_stopping_nothing_is_no_failure(command: Command) -> None:
    stopped = command("services", "stop", "kafka")
    assert (0, True) == (stopped.returncode, "no kafka runs" in stopped.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("services", "start", "rabbit"), "there is no service 'rabbit'"),
        (("services", "start", "--kafka-version", "four"), "'four' is no version of Kafka"),
        (("services", "start", "--nodes", "0"), "0 is not in the range"),
    ],
)
def test_bad_arguments_are_refused_without_a_traceback(
    command: Command, arguments: tuple[str, ...], message: str
) -> None:
    run = command(*arguments)
    assert (3, "") == (run.returncode, run.stdout)
    assert message in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(("states", "status"), [(("ok", "optional"), 0), (("ok", "lacking", "optional"), 2)])
def test_the_doctor_ends_with_0_where_nothing_is_lacking_for_what_was_installed(
    states: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = [MachineFinding(f"part {number}", state, "as found") for number, state in enumerate(states)]
    monkeypatch.setattr("sinkproof.cli.doctor.examine", lambda versions: findings)
    done = CliRunner().invoke(doctor, [])
    assert status == done.exit_code
    assert [*states] == [line.split()[0] for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_doctor_names_missing_programs_and_the_command_that_installs_them(command: Command, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    run = command("doctor", "--json", PATH=str(nothing), JAVA_HOME="", XDG_CACHE_HOME=str(tmp_path / "cache"))
    rows = {row["name"]: row for row in json.loads(run.stdout)}
    assert 2 == run.returncode
    assert ("lacking", "optional") == (rows["Java"]["state"], rows["Kafka's jars"]["state"])
    assert "Run: " in rows["Java"]["next_step"]
    assert "services start kafka" in rows["Kafka's jars"]["next_step"]
    assert "Java" in command("doctor").stdout
