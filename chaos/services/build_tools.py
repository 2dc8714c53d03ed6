"""Runs the programs that fetch or build a service, with progress and a time limit; they end with the caller."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.running_services import tail

SECONDS_MOST: Final = 900.0  # 46 jars, 44 MB: Maven 6 s, Ivy 41 s; a build in Go 46; on a slow line ten times that
PROGRESS_SECONDS: Final = 2.0
REASON_CHARACTERS_MOST: Final = 300
NO_VARIABLES: Final[Mapping[str, str]] = {}


class ToolFailed(Exception):
    """A tool failed; the text is its own error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """How the output of a program is parsed."""

    counted: re.Pattern[str]  # matches once per fetched file
    reason: re.Pattern[str]  # the line with the reason of a failure

    def run(
        self,
        command: list[str],
        work: Path,
        report: Callable[[str], None],
        *,
        environment: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        """Reports progress every two seconds. All its processes have ended when this returns or raises."""
        log = work / "log"
        with log.open("ab") as output, _blocked_interrupts() as unblock:
            process = subprocess.Popen(
                command,
                cwd=work,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                unblock()
                self._watch(process, log, report)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # mvn is a script: its JVM would survive it
                process.wait()
        if process.returncode:
            found = self.reason.search(log.read_text(errors="replace"))
            why = found[1].strip()[:REASON_CHARACTERS_MOST] if found else ""
            raise ToolFailed(why or f"exit status {process.returncode}")

    def _watch(self, process: subprocess.Popen[bytes], log: Path, report: Callable[[str], None]) -> None:
        deadline = Deadline(SECONDS_MOST)
        while not _has_ended(process, min(PROGRESS_SECONDS, deadline.left)):
            report(f"{len(self.counted.findall(log.read_text(errors='replace')))} files so far")
            if deadline.over:
                raise ToolFailed(f"not done after {SECONDS_MOST:.0f} s. Its last output: {tail(log)}")


@contextmanager
def _blocked_interrupts() -> Iterator[Callable[[], None]]:
    """Blocks SIGINT and SIGTERM until `unblock` is called. An interrupt between the start of a program and the return
    of Popen would leave the program running.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield unblock
    finally:
        unblock()


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
