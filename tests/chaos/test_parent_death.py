"""A command dies with the process that started it, and does not begin where that is dead already."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from sinkproof.chaos.processes.parent_death import dying_with
from sinkproof.chaos.services.running_services import await_exit

PARENT: Final = """\
import os, subprocess, sys
from sinkproof.chaos.processes.parent_death import dying_with
command = dying_with(os.getpid(), "sh", "-c", "echo $$; exec sleep 600")
subprocess.run(command)
"""


def test_a_command_dies_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        await_exit(pid, 20.0)
    assert not Path(f"/proc/{pid}/exe").exists()  # dead, and perhaps not yet reaped


def test_a_command_of_a_dead_parent_is_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert 1 == subprocess.run(dying_with(os.getppid(), "touch", str(made))).returncode
    assert not made.exists()
    assert 0 == subprocess.run(dying_with(os.getpid(), "touch", str(made))).returncode
    assert made.exists()
