"""The workflow for GitHub Actions and the job for GitLab: valid by the services' schemas, and their steps work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sinkproof.cli.init_command import SAMPLE, WORKFLOWS

SCHEMAS = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci"}
SMALL = {"SUBJECT": "memory/plain", "OPTIONS": "--on simulated --no-canaries --budget least", "SINKPROOF": "sinkproof"}
CERTIFICATE = "certificate.json"
Shell = Callable[..., subprocess.CompletedProcess[str]]


def path_of(project: Path, service: str) -> Path:
    return project / "harness/cli" / WORKFLOWS[service][1]


def read(project: Path, service: str) -> Any:
    return YAML(typ="safe").load(path_of(project, service))


@pytest.mark.parametrize("service", WORKFLOWS)
def test_it_is_valid_and_names_the_subject_once(project: Path, service: str) -> None:
    path = path_of(project, service)
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[service], path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout
    assert 1 == path.read_text().count(SAMPLE)  # what `init` replaces


@pytest.fixture
def shell(tmp_path: Path, command_environment: dict[str, str]) -> Shell:
    """Runs a step as the services do: bash, which ends at the first command that fails."""

    def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={**command_environment, **SMALL, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def uphold_less(folder: Path) -> None:
    """The main branch's certificate has looked at one claim more."""
    path = folder / ".sinkproof/main" / CERTIFICATE
    document = json.loads(path.read_text())
    document["subjects"][0]["claims"].append({"claim": "HONEST_MARKERS", "verdict": "upheld", "why": "it was"})
    path.write_text(json.dumps(document))


@pytest.mark.slow
def test_the_steps_of_the_workflow(project: Path, tmp_path: Path, shell: Shell) -> None:
    workflow = read(project, "github")
    steps = workflow["jobs"]["certify"]["steps"]
    scripts = {step["name"]: step["run"] for step in steps if "run" in step}
    assert {"SUBJECT", "OPTIONS", "SINKPROOF"} == {*workflow["env"]}
    summary = tmp_path / "summary.md"
    for name in ("Install", "Certify", "Report", "Keep the main branch's certificate"):
        done = shell(scripts[name], GITHUB_STEP_SUMMARY=str(summary))
        assert 0 == done.returncode, f"{name}: {done.stdout}{done.stderr}"
    assert "UPHELD" in summary.read_text()
    assert [] == json.loads((tmp_path / ".sinkproof/ci/sinkproof.sarif").read_text())["runs"][0]["results"]
    assert "at-least-once" in (tmp_path / ".sinkproof/ci/badge.svg").read_text()

    compare = scripts["Compare with the main branch"]
    assert 0 == shell(compare).returncode
    uphold_less(tmp_path)
    worse = shell(compare)
    assert (1, True) == (worse.returncode, "HONEST_MARKERS: claimed, upheld before, nothing now" in worse.stdout)
    (tmp_path / ".sinkproof/main" / CERTIFICATE).unlink()
    assert "nothing to compare with" in shell(compare).stdout


def test_the_workflow_reports_what_failed_and_keeps_what_main_has_made(project: Path) -> None:
    steps = {step.get("name", step.get("uses")): step for step in read(project, "github")["jobs"]["certify"]["steps"]}
    assert "if" not in steps["Certify"]
    after = list(steps)[list(steps).index("Certify") + 1 :]
    assert all("!cancelled()" in steps[name]["if"] for name in after)  # else a violation would end the job unreported
    kept = {name: step["with"]["path"] for name, step in steps.items() if "actions/cache" in step.get("uses", "")}
    assert {".sinkproof/main\n.sinkproof/kept\n"} == {*kept.values()}  # the certificate, and results of earlier runs
    on_main = [name for name in after if "github.event_name != 'pull_request'" in steps[name]["if"]]
    assert ["Keep the main branch's certificate", "actions/cache/save@v5"] == on_main
    assert ".sinkproof/ci" == steps["actions/upload-artifact@v6"]["with"]["path"]
    assert steps["actions/upload-artifact@v6"]["with"]["include-hidden-files"]
    shown = steps["github/codeql-action/upload-sarif@v4"]["with"]["sarif_file"]
    assert f"--format sarif --exit-zero > {shown}" in steps["Report"]["run"]


@pytest.mark.slow
def test_the_scripts_of_the_job(project: Path, tmp_path: Path, shell: Shell) -> None:
    job = read(project, "gitlab")["sinkproof"]
    steps = {step.get("name"): step.get("run") for step in read(project, "github")["jobs"]["certify"]["steps"]}
    install, certify, compare = job["script"]
    assert [steps["Install"], steps["Certify"]] == [install, certify]  # tried by the test of the workflow
    shutil.copytree(project / "reports/examples", tmp_path / ".sinkproof/ci")
    for script in (compare, *job["after_script"]):
        done = shell(script, CACHE_POLICY="pull-push")
        assert 0 == done.returncode, f"{script}: {done.stdout}{done.stderr}"
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).exists()
    assert ("always", [".sinkproof/ci"]) == (job["artifacts"]["when"], job["artifacts"]["paths"])
    assert [".sinkproof/main", ".sinkproof/kept"] == job["cache"]["paths"]
    assert 0 == shell(compare, CACHE_POLICY="pull").returncode
    uphold_less(tmp_path)
    assert 1 == shell(compare, CACHE_POLICY="pull").returncode
    assert {"pull", "pull-push"} == {rule["variables"]["CACHE_POLICY"] for rule in job["rules"]}


@pytest.mark.parametrize("service", WORKFLOWS)
def test_every_command_and_option_exists(project: Path, service: str) -> None:
    from sinkproof.cli.main import cli

    text = path_of(project, service).read_text()
    for name, options in re.findall(r"sinkproof (certify|report|compare)\b(.*)", text):
        known = {option for parameter in cli.commands[name].params for option in parameter.opts}
        assert {*re.findall(r"--[a-z-]+", options)} <= known
