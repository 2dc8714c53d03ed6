"""Every line of seeds.txt, a past failure, is replayed and upheld."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from sinkproof.chaos.schedule import parse

SEEDS = Path(__file__).parents[2] / "seeds.txt"


def seeds(text: str) -> list[list[str]]:
    """[schedule, subject] of each line that is not a comment."""
    lines = (shlex.split(line, comments=True) for line in text.splitlines())
    return [words for words in lines if words]


def test_a_line_is_a_schedule_and_a_subject() -> None:
    text = "# nothing\n\n'sink[0].commit.after#1=kill' files/two-phase  # why\n"
    assert [["sink[0].commit.after#1=kill", "files/two-phase"]] == seeds(text)


@pytest.mark.slow
def test_past_failures_stay_fixed(command_environment: dict[str, str], tmp_path: Path) -> None:
    for schedule, subject in seeds(SEEDS.read_text(encoding="utf-8")):
        replay = ["sinkproof", "replay", str(parse(schedule)), subject]
        run = subprocess.run(replay, env=command_environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{shlex.join(replay)} ended with {run.returncode}:\n{run.stdout}{run.stderr}"
