"""`--kafka` and `--kafka-version`: unusable values are refused before anything runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def certify(folder: Path, *options: str) -> tuple[int, str]:
    """Exit status and output."""
    command = [
        sys.executable,
        "-m",
        "sinkproof",
        "certify",
        "kafka/plain",
        "--on",
        "process",
        "--no-canaries",
        *options,
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SINKPROOF_")}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return run.returncode, run.stderr


def test_a_cluster_that_does_not_answer_is_an_immediate_error(tmp_path: Path) -> None:
    status, said = certify(tmp_path, "--kafka", "external:127.0.0.1:1")
    assert 3 == status
    assert "no Kafka answers at 127.0.0.1:1" in said
    assert "Traceback" not in said


def test_a_value_that_names_no_cluster_is_refused_with_an_example(tmp_path: Path) -> None:
    status, said = certify(tmp_path, "--kafka", "somewhere")
    assert 3 == status
    assert "known are local, container and external:HOST:PORT" in said


@pytest.mark.slow
def test_an_invalid_version_is_bad_input(tmp_path: Path) -> None:
    status, said = certify(tmp_path, "--kafka-version", "banana", "--quiet")
    assert 3 == status
    assert "'banana' is no version of Kafka" in said
