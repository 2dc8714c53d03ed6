"""Sinks, faults and services that other packages register by entry points: an installed example, and broken ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkproof.chaos import entry_points
from sinkproof.chaos.entry_points import (
    FAULTS,
    SINKS,
    RegistrationError,
    load_registered,
    refuse_what_cannot_be_used,
    registered,
)
from sinkproof.chaos.faults.fault_kind import FaultKind

Run = Callable[..., subprocess.CompletedProcess[str]]
EXAMPLE = Path(__file__).parents[2] / "support/example_package"
CAMPAIGN = """
import json, sys
from urllib.request import urlopen
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import REGISTERED_FAULTS
from sinkproof.canaries.inside_services.two_file_store import request
from sinkproof.certifier.certify import environment
from sinkproof.certifier.glossary import glossary
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

contract = load("acme-orders")
with scratch_folder() as folder, ScheduleRunner(contract, Scratch(name="of others", path=folder)) as runner:
    campaign = SimulatedCampaign(runner, CampaignResults(contract=contract, shell="simulated"))
    campaign.carry_out(REGISTERED_FAULTS)
    (stage,) = campaign.results.coverage.stages
    service = runner.scratch.service("shelf", start=True)
    print(json.dumps({
        "stage": [stage.name, stage.finished],
        "schedules": sorted(str(each) for each in campaign.tried if "refuse" in str(each)),
        "cells": [list(cell) for cell in campaign.results.coverage.cells],
        "files": [*runner.files.values()],
        "sentence": glossary()["faults"]["refuse"],
        "packages": environment()["registered by"],
        "pending": request(runner.scratch.service("two-file-store", start=True).direct_endpoint, "pending"),
        "service": [urlopen(f"http://{service.endpoint}/").status, service.own],
    }))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package, as pip installs it."""
    source, target = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source)
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, source], check=True)
    return target


@pytest.fixture
def run(installed: Path, tmp_path: Path, command_environment: dict[str, str]) -> Run:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(installed), command_environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        environment = {**command_environment, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return python


@pytest.mark.slow
def test_a_registered_sink_is_crashed_by_a_registered_fault_beside_a_registered_service(run: Run) -> None:
    done = run("-c", CAMPAIGN)
    assert 0 == done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert ["faults of other packages", True] == found["stage"]
    assert "sink[0].notify_complete.before#1=refuse" in found["schedules"]
    assert ["notify_complete.before", "refuse"] in found["cells"]
    assert "orders.py" in found["files"]
    assert ["acme-sinks 1.2"] == found["packages"]
    assert "refused connection: the call raises ConnectionRefusedError" == found["sentence"]
    assert [200, True] == found["service"]
    assert [] == found["pending"]


@pytest.mark.slow
def test_commands_know_what_is_registered(run: Run) -> None:
    replayed = run("-m", "sinkproof", "replay", "sink[0].notify_complete.before#2=refuse", "acme-orders")
    assert 0 == replayed.returncode, replayed.stderr
    unknown = run("-m", "sinkproof", "certify", "acme-order")
    assert (3, True) == (unknown.returncode, "Name a registered pair (acme-orders, cassandra/" in unknown.stderr)
    stopped = run("-m", "sinkproof", "services", "stop", "shelf")
    assert (0, "sinkproof: no shelf runs that `services start` has started\n") == (stopped.returncode, stopped.stderr)
    refused = run("-m", "sinkproof", "services", "stop", "shell")
    known = "Known: kafka, cassandra, toxiproxy, spark-cluster, shelf"
    assert (3, True) == (refused.returncode, known in refused.stderr)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Installs a package with these entry points."""

    def install(name: str, text: str) -> None:
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(text)

    (tmp_path / "broken_package.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    registered.cache_clear()
    yield install
    registered.cache_clear()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("flood = nowhere:FLOOD", "ModuleNotFoundError: No module named 'nowhere'"),
        ("flood = broken_package:FLOOD", "ZeroDivisionError: division by zero"),
        ("flood = sinkproof.chaos.faults.kill_attempt:NOTHING", "AttributeError: "),
        ("flood = sinkproof.chaos.clock:Deadline", "it is no FaultKind with word = 'flood'"),
        ("flood = sinkproof.chaos.faults.kill_attempt:KILL", "it is no FaultKind with word = 'flood'"),
        ("kill = sinkproof.chaos.faults.kill_attempt:KILL", "'kill' is a name of sinkproof itself"),
    ],
)
def test_what_cannot_be_used_names_its_package(
    package: Callable[[str, str], None], entry: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package("acme", f"[{FAULTS}]\n{entry}\n")
    monkeypatch.setattr(entry_points, "_errors", [])
    assert [] == load_registered(FAULTS, FaultKind, name_in="word", taken=["kill"])
    with pytest.raises(RegistrationError) as refused:
        refuse_what_cannot_be_used()
    assert f"acme 1.0 registers {entry} in {FAULTS}, which cannot be used: {said}" in str(refused.value)
    assert str(refused.value).endswith("Correct or uninstall that package")


def test_two_packages_with_one_name_are_refused(package: Callable[[str, str], None]) -> None:
    package("acme", f"[{SINKS}]\norders = acme.sinks:Orders\n")
    assert "acme.sinks:Orders" == registered(SINKS)["orders"].value
    package("other", f"[{SINKS}]\norders = other.sinks:Orders\n")
    registered.cache_clear()
    with pytest.raises(RegistrationError, match="registers 'orders', too"):
        registered(SINKS)


def test_a_package_that_cannot_be_loaded_is_no_bug_of_sinkproof(
    package: Callable[[str, str], None], tmp_path: Path, command_environment: dict[str, str]
) -> None:
    package("acme", f"[{FAULTS}]\nflood = broken_package:FLOOD\n")
    command = [sys.executable, "-m", "sinkproof", "replay", "no-fault", "files/plain"]
    environment = {**command_environment, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (3, "") == (done.returncode, done.stdout)
    assert "sinkproof: acme 1.0 registers flood = broken_package:FLOOD" in done.stderr
    assert "Traceback" not in done.stderr
