"""Failures of the past stay mended: every line of seeds.txt is replayed."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from sinkproof.chaos.schedule import parse

SEEDS = Path(__file__).with_name("seeds.txt")


def seeds(text: str) -> list[list[str]]:
    """(schedule, subject) of each line that is not only a comment."""
    words = (shlex.split(line, comments=True) for line in text.splitlines())
    return [found for found in words if found]


def test_a_line_is_a_schedule_and_a_subject() -> None:
    assert [["sink[0].commit.after#1=kill", "files/two-phase"]] == seeds(
        "# nothing\n\n'sink[0].commit.after#1=kill' files/two-phase  # why\n"
    )


@pytest.mark.parametrize("seed", seeds(SEEDS.read_text(encoding="utf-8")), ids=" ".join)
def test_a_past_failure_stays_mended(seed: list[str], command_environment: dict[str, str], tmp_path: Path) -> None:
    schedule, subject = seed
    parse(schedule)
    replay = ["sinkproof", "replay", schedule, subject]
    run = subprocess.run(replay, env=command_environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{shlex.join(replay)} ended with {run.returncode}:\n{run.stdout}{run.stderr}"
