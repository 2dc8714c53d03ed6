"""Shows the progress of a pipeline on stderr: an updated line on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, TextIO

from sinkproof.chaos.clock import utc_now
from sinkproof.reports.report_facts import plural

LINE_SECONDS: Final = 5.0
DRAW_SECONDS: Final = 0.1
CLEAR: Final = "\r\x1b[K"


@dataclass(slots=True)
class PipelineStatus:
    rows: int  # covered by complete checkpoints
    total: int
    checkpoints: int = 0
    restarts: int = 0
    rows_per_second: float = 0.0
    stopping: bool = False
    endless: bool = False

    @property
    def how_far(self) -> str:
        if self.endless:
            return f"{self.rows:,} rows, {max(0, self.total - self.rows):,} behind"
        share = 100 * self.rows // self.total if self.total else 100
        return f"{self.rows:,} of {self.total:,} rows ({share} %)"

    def __str__(self) -> str:
        restarts = f", {plural(self.restarts, 'restart')}" if self.restarts else ""
        stopping = "; stopping with a checkpoint (again: at once)" if self.stopping else ""
        checkpoints = plural(self.checkpoints, "checkpoint")
        return f"{self.how_far}, {self.rows_per_second:,.0f} rows/s, {checkpoints}{restarts}{stopping}"


class StatusLine:
    """This one shows nothing."""

    def show(self, status: PipelineStatus) -> None:
        """May be called a thousand times a second."""

    def checkpoint(self, seconds: float) -> None:
        """A checkpoint became complete, so long after it was triggered."""

    def say(self, text: str) -> None:
        """Prints a line. On a terminal the next `show` replaces it."""

    def close(self) -> None:
        """Clears the line. May be called any number of times."""


class LogLine(StatusLine):
    """For files: one line every few seconds, and one when the job begins to stop."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._next, self._stopping = clock() + LINE_SECONDS, False

    def show(self, status: PipelineStatus) -> None:
        if self._is_due(status):
            self.say(str(status))

    def _is_due(self, status: PipelineStatus) -> bool:
        begins_to_stop, self._stopping = status.stopping != self._stopping, status.stopping
        return begins_to_stop or self._clock() >= self._next

    def say(self, text: str) -> None:
        self._next = self._clock() + LINE_SECONDS
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        self._stream.flush()


class JsonLine(LogLine):
    """The same as JSON lines: "at" in UTC, and "message", or the numbers of the status."""

    def show(self, status: PipelineStatus) -> None:
        if self._is_due(status):
            self._print(asdict(status))

    def say(self, text: str) -> None:
        self._print({"message": text})

    def _print(self, content: dict[str, Any]) -> None:
        self._next = self._clock() + LINE_SECONDS
        at = utc_now().isoformat(timespec="milliseconds")
        print(json.dumps({"at": at, **content}), file=self._stream, flush=True)


class TerminalLine(StatusLine):
    """Lines are cut to the width of the terminal: a line that wraps cannot be cleared."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._next, self._drawn = 0.0, False

    def show(self, status: PipelineStatus) -> None:
        if self._clock() >= self._next:
            self.say(str(status))

    def say(self, text: str) -> None:
        self._next, self._drawn = self._clock() + DRAW_SECONDS, True
        width = shutil.get_terminal_size((120, 24)).columns - 1
        self._stream.write(CLEAR + text[:width])
        self._stream.flush()

    def close(self) -> None:
        if self._drawn:
            self._stream.write(CLEAR)
            self._stream.flush()
        self._drawn = False


def open_line(stream: TextIO, *, clock: Callable[[], float], quiet: bool = False, as_json: bool = False) -> StatusLine:
    if quiet:
        return StatusLine()
    if as_json:
        return JsonLine(stream, clock=clock)
    return TerminalLine(stream, clock=clock) if stream.isatty() else LogLine(stream, clock=clock)
