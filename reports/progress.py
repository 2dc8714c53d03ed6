"""Shows on stderr which fault a long run injects and how many schedules it has run.

On a terminal: a view that is redrawn in place. Elsewhere: at most one plain line every few seconds. No thread redraws
it: the caller may fork at any moment, and a forked child would inherit the lock of a thread that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

LINE_INTERVAL_SECONDS: Final = 5.0
DRAW_INTERVAL_SECONDS: Final = 0.1  # one redraw costs about 1 ms, a simulated schedule 0.25 ms


class Progress:
    """One subject in one shell after the other. This one shows nothing; `step` may be called thousands of times a
    second.
    """

    def start(self, subject: str, shell: str, total: int | None) -> None:
        """`total`: schedules to run; None where the number is not known."""

    def step(self, what: str, kills: int) -> None:
        """One schedule begins: `what` is its fault, such as "sink[0].commit.after = kill"; `kills` so far."""

    def done(self, verdict: str) -> None:
        """This subject in this shell is finished."""

    def close(self) -> None:
        """Gives the terminal back. Any number of times, also in the middle, such as after Ctrl-C."""


SILENT: Final = Progress()


@dataclass(slots=True)
class ShellProgress:
    """The progress of one subject in one shell."""

    subject: str
    shell: str
    total: int | None
    what: str = ""
    kills: int = 0
    steps: int = 0

    def counted(self) -> str:
        return f"{self.steps:,}" if self.total is None else f"{self.steps:,}/{self.total:,}"


class Lines(Progress):
    """For logs: at most one line per interval."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        self._stream, self._clock, self._next = stream, clock, clock()
        self._current = ShellProgress("", "", None)

    def start(self, subject: str, shell: str, total: int | None) -> None:
        self._current = ShellProgress(subject, shell, total)
        self._say("starts")

    def step(self, what: str, kills: int) -> None:
        current = self._current
        current.what, current.kills, current.steps = what, kills, current.steps + 1
        if self._clock() >= self._next:
            self._say(f"injecting {what}")

    def done(self, verdict: str) -> None:
        self._say(verdict)

    def close(self) -> None:
        self._stream.flush()

    def _say(self, text: str) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LINE_INTERVAL_SECONDS
        at = self._current
        print(f"{at.subject} [{at.shell}] {at.counted()}, {at.kills:,} kills: {text}", file=self._stream, flush=True)


class View(Progress):
    """For terminals: three lines that are redrawn in place, and one permanent line for each finished subject."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._clock = clock
        self._drawn = self._started = clock()
        self._current = ShellProgress("", "", None)
        self._live: Live | None = None

    def start(self, subject: str, shell: str, total: int | None) -> None:
        from rich.live import Live

        self.close()
        self._current = ShellProgress(subject, shell, total)
        self._started = self._clock()
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()
        self._draw(self._started)

    def step(self, what: str, kills: int) -> None:
        current = self._current
        current.what, current.kills, current.steps = what, kills, current.steps + 1
        now = self._clock()
        if now - self._drawn >= DRAW_INTERVAL_SECONDS:
            self._draw(now)

    def done(self, verdict: str) -> None:
        from rich.text import Text

        self.close()
        at, seconds = self._current, self._clock() - self._started
        text = f"{verdict:<8}  {at.subject} [{at.shell}]  {at.counted()}, {at.kills:,} kills, {seconds:.1f} s"
        self._console.print(Text(text), overflow="ellipsis", no_wrap=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self, now: float) -> None:
        self._drawn = now
        if self._live is not None:
            self._live.update(self._picture(now), refresh=True)

    def _picture(self, now: float) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        at = self._current
        head = Text(f"{at.subject} [{at.shell}]", style="bold", overflow="ellipsis", no_wrap=True)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=at.total or None, completed=at.steps, width=min(40, self._console.width // 3)),
            Text(f"{at.counted()}  {at.kills:,} kills  {now - self._started:.0f} s", no_wrap=True),
        )
        what = Text(f"injecting {at.what}" if at.what else "starting", overflow="ellipsis", no_wrap=True)
        return Group(head, bar, what)


def open_progress(stream: TextIO, *, clock: Callable[[], float], quiet: bool = False) -> Progress:
    """The progress display that fits this stream. `clock`: seconds, such as time.monotonic."""
    if quiet:
        return SILENT
    return View(stream, clock=clock) if stream.isatty() else Lines(stream, clock=clock)
