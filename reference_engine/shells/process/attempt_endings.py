"""How attempts end that neither a fault nor the engine has killed, and how their calls fail."""

from __future__ import annotations

import enum
import os
import signal

from sinkproof.chaos.processes.spawn import EXIT_OUT_OF_MEMORY


class AttemptEnding(enum.Enum):
    """How an attempt ended that neither a fault nor the engine has killed."""

    EXITED = "it exited by itself"
    SIGNALLED = "it was killed by a signal"
    STOPPED = "it stopped by itself"
    HUNG = "it did not answer in time"
    GARBAGE = "it answered with garbage"
    OUT_OF_MEMORY = "it ran out of memory"


class AttemptEnded(Exception):
    """This attempt is dead, and no armed fault killed it. `status`: its wait status; `evidence`: what was observed."""

    def __init__(self, ending: AttemptEnding, *, status: int, output_tail: str = "", evidence: str = "") -> None:
        super().__init__(ending, status, output_tail, evidence)
        self.ending, self.status, self.output_tail, self.evidence = ending, status, output_tail, evidence

    def __str__(self) -> str:
        output = self.output_tail.strip()
        return "; ".join(
            [
                f"{self.ending.value} ({describe_status(self.status)})",
                *([self.evidence] if self.evidence else []),
                f"its last words: {output[-500:]}" if output else "it printed nothing",
            ]
        )


class SinkError(Exception):
    """A sink's call raised in another process. What it raised there is not an exception here, only its text."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name, self.message = type_name, message

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"


def ending_of(status: int) -> AttemptEnding:
    if os.WIFEXITED(status):
        return AttemptEnding.OUT_OF_MEMORY if os.WEXITSTATUS(status) == EXIT_OUT_OF_MEMORY else AttemptEnding.EXITED
    return AttemptEnding.SIGNALLED


def describe_status(status: int) -> str:
    """A wait status as text."""
    if os.WIFEXITED(status):
        return f"exit status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    names = {int(each): each.name for each in signal.Signals}
    return f"killed by {names.get(number, f'signal {number}')}"  # signals of real time have no name
