"""Ctrl-C in the moment that the imports of all commands take."""

from __future__ import annotations

import subprocess
import sys

DURING_IMPORTS = """
import sys

class Interrupting:
    def find_spec(self, name, *where):
        if name == "sinkproof.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from sinkproof.__main__ import main
main()
"""


def test_ctrl_c_while_the_commands_are_imported_ends_without_a_traceback(command_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DURING_IMPORTS], env=command_environment, capture_output=True, text=True
    )
    assert (130, "sinkproof: interrupted\n") == (done.returncode, done.stderr)
