"""Files that forges and registries read: valid by their schemas, and true to pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

SCHEMAS = {
    ".ci/github/bug.yml": "github-issue-forms",
    ".ci/github/wrong_verdict.yml": "github-issue-forms",
    ".ci/github/release.yml": "github-workflows",
    "CITATION.cff": "citation-file-format",
}


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


@pytest.fixture
def metadata(project: Path) -> Any:
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("path", SCHEMAS)
def test_it_is_valid_by_the_schema_of_its_reader(project: Path, path: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{SCHEMAS[path]}", project / path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout


def test_what_is_for_a_forge_says_where_it_is_copied_to(project: Path) -> None:
    files = sorted((project / ".ci/github").iterdir())
    assert 4 == len(files)
    for file in files:
        assert re.search(
            rf"[Cc]opy it to \.github/(\w+/)?{re.escape(file.name)}\b", file.read_text(encoding="utf-8")
        ), file


def test_the_citation_names_this_version_licence_and_keywords(project: Path, metadata: Any) -> None:
    cited = read(project / "CITATION.cff")
    assert metadata["version"] == cited["version"]
    assert metadata["license"] == cited["license"]
    assert metadata["keywords"] == cited["keywords"]


def test_a_release_is_tested_with_what_pyproject_promises_and_published_without_a_token(
    project: Path, metadata: Any
) -> None:
    jobs = read(project / ".ci/github/release.yml")["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    promised = [kind.rpartition(" ")[2] for kind in metadata["classifiers"] if re.search(r"Python :: 3\.", kind)]
    assert promised == matrix["python"]
    (spark,) = [need for need in metadata["optional-dependencies"]["spark"] if need.startswith("pyspark")]
    oldest, newest = matrix["spark"]
    assert spark == f"pyspark>={oldest},<{newest.partition('.')[0]}.{int(newest.partition('.')[2]) + 1}"
    assert ("test", "build") == (jobs["publish"]["needs"], jobs["test"]["needs"])
    assert {"id-token": "write"} == jobs["publish"]["permissions"]
    assert "secrets." not in (project / ".ci/github/release.yml").read_text(encoding="utf-8")
