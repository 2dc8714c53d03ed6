"""Programs that fetch or build what a service needs: they are watched, bounded, and end with who started them."""

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
TELL_SECONDS: Final = 2.0
REASON_CHARACTERS_MOST: Final = 300
AS_OURS: Final[Mapping[str, str]] = {}


class Failed(Exception):
    """One tool could not do it; the text is what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """How its output is read."""

    counted: re.Pattern[str]  # one file that it has fetched
    reason: re.Pattern[str]  # the line that says why it failed; the rest is advice on how to run it again

    def run(
        self, command: list[str], work: Path, tell: Callable[[str], None], *, environment: Mapping[str, str] = AS_OURS
    ) -> None:
        """Tells how far it is every other second; nothing of it is left when this returns or raises."""
        log = work / "log"
        with log.open("ab") as output, _interrupts_wait() as let_through:
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
                let_through()
                self._watch(process, log, tell)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # mvn is a script, whose JVM would go on
                process.wait()
        if process.returncode:
            said = self.reason.search(log.read_text(errors="replace"))
            why = said[1].strip()[:REASON_CHARACTERS_MOST] if said else ""
            raise Failed(why or f"exit status {process.returncode}")

    def _watch(self, process: subprocess.Popen[bytes], log: Path, tell: Callable[[str], None]) -> None:
        deadline = Deadline(SECONDS_MOST)
        while not _has_ended(process, min(TELL_SECONDS, deadline.left)):
            tell(f"{len(self.counted.findall(log.read_text(errors='replace')))} files so far")
            if deadline.over:
                raise Failed(f"not done after {SECONDS_MOST:.0f} s. It last said: {tail(log)}")


@contextmanager
def _interrupts_wait() -> Iterator[Callable[[], None]]:
    """Nothing interrupts us until `let_through` is called: a program that runs already, and that nobody knows of yet,
    would be left behind.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))

    def let_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield let_through
    finally:
        let_through()


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
