"""The first hour by the README's text alone: a wheel in a fresh environment, the wrong sink, its repair, pytest.

tests/house/test_docs.py runs the same blocks in the checkout. Here they meet an installed wheel, an environment without
anything else, and a time limit.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final

import pytest

from ..house.test_docs import Block, blocks, lines_not_printed

pytestmark = [pytest.mark.released, pytest.mark.slow, pytest.mark.timeout(1800)]
SECONDS_MOST: Final = 300.0  # of the processors, so that other programs change nothing: five minutes of one core
OPTIONS: Final = ("-q", "--disable-pip-version-check")


class User:
    """A folder, an environment of its own, and the blocks of the README that are to be followed."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.folder, self.environment = folder, folder / "environment"
        self.blocks: list[Block] = blocks("README.md", (project / "README.md").read_text(encoding="utf-8"))
        clean = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.variables = {**clean, "PATH": path, "COLUMNS": "120"}

    def run(self, *command: str, status: int = 0) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder / "project",
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert status == done.returncode, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def install(self, project: Path) -> None:
        (self.folder / "project").mkdir()
        self.run(sys.executable, "-m", "venv", str(self.environment))
        wheels = self.folder / "wheels"
        self.run("pip", "wheel", *OPTIONS, "--no-deps", "-w", str(wheels), str(project))
        self.run("pip", "install", *OPTIONS, *map(str, wheels.iterdir()))

    def follow(self) -> list[int]:
        """Writes, runs and compares as the marks say. Returns the exit statuses of what was run."""
        statuses, output = [], ""
        for block in self.blocks:
            word, _, rest = block.mark.partition(" ")
            if word == "file":
                (self.folder / "project" / rest).write_text(block.code, encoding="utf-8")
            elif word == "run":
                statuses.append(int(rest or 0))
                output = self.run("bash", "-eu", "-c", block.code, status=statuses[-1])
            elif word == "prints":
                assert [] == lines_not_printed(block.code, output), f"{block.place}: not in\n{output}"
        return statuses


def test_the_readme_leads_from_a_wheel_to_a_repaired_sink_in_pytest(project: Path, tmp_path: Path) -> None:
    before = processor_seconds()
    user = User(tmp_path, project)
    user.install(project)
    assert [1, 0] == user.follow()
    said = user.run("pytest", "-q")
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said
    where = user.run("python", "-c", "import sinkproof; print(sinkproof.__file__)")
    assert where.startswith(str(user.environment))
    assert processor_seconds() - before < SECONDS_MOST


def processor_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
