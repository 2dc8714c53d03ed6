"""Shows on stderr how far a long run is: for each subject the phase, the fault in words, the time, what was found.

On a terminal: a line for each subject that is redrawn in place. Elsewhere: one plain line every ten seconds. Findings
are printed at once. No thread redraws anything: the caller may fork at any moment, and a forked child would inherit the
lock of a thread that it does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

from sinkproof.reports.report_facts import plural, visible

if TYPE_CHECKING:
    from rich.live import Live

LINE_INTERVAL_SECONDS: Final = 10.0
DRAW_INTERVAL_SECONDS: Final = 0.1  # one redraw costs about 1 ms, a simulated schedule 0.25 ms
WIDTH_OF_NUMBERS: Final = 100  # narrower terminals show no number of schedules
FAULTS_MOST: Final = 2  # that are put into words: more would be longer than a line
NAME_SHARE: Final = 3  # a name longer than this share of the width loses its beginning, because it ends with the class

FAULT: Final = re.compile(
    r"(?:(?P<actor>[\w-]+\[\d+\])\.)?(?P<point>syscall\([^()]*\)|\S+)#(?P<times>\d+)=(?P<kind>[\w-]+)"
)
DOING: Final = {
    "kill": "killing {actor}",
    "kill-job": "killing the whole job",
    "kill-halfway": "killing {actor} within a request",
    **dict.fromkeys(("terminate", "terminate-later"), "asking {actor} by SIGTERM to end"),
    "stop": "suspending {actor}, which resumes as a zombie,",
    "meet": "resuming {actor} beside a request of another subtask,",
    "overlap": "resuming {actor} beside the same request of its successor,",
    "land": "letting the last request of {actor} land late,",
    "pause": "pausing {actor}",
    "error": "failing a call of {actor}",
    "fail": "failing all calls of {actor}",
    "unanswered": "losing the reply to a call of {actor}",
    "unavailable": "answering a request of {actor} by 503",
    "throttled": "answering a request of {actor} by 429",
    "gateway-timeout": "answering a request of {actor} by 504, though it was carried out",
    "bad-gateway": "answering a request of {actor} by 502, though it was carried out",
    "reply-cut": "cutting the reply to a request of {actor}",
    "request-delayed": "delaying a request of {actor}",
    "items-rejected": "rejecting each item of a bulk request of {actor}",
    "some-rejected": "rejecting every second item of a bulk request of {actor}",
    "late-reply": "holding back the reply to {actor} until its timeout is over",
    "silent": "holding back the reply to {actor}",
    "black-hole": "losing a request of {actor}",
    "refused-statement": "letting a server refuse a statement of {actor}",
    "lock-timeout": "letting a statement of {actor} wait too long for a lock",
    "closed": "closing the connection of {actor} instead of a reply",
    "lose": "losing a notification",
    "decline": "declining a vote",
    **dict.fromkeys(
        ("lose-power", "lose-bytes", "lose-names", "lose-tails", "lose-newest", "lose-older"), "cutting the power"
    ),
}


class Progress:
    """How far one task is: one subject in one shell, or the canaries. This one shows nothing. `step` may be called
    thousands of times a second.
    """

    def of(self, subject: str, shell: str, seconds: float | None) -> Progress:
        """The progress of this task, shown in the line of its subject. `seconds`: its budget; None: it has none, and
        what it finds is not shown.
        """
        return self

    def is_convicted_elsewhere(self) -> bool:
        """Whether another shell has broken a claim of the subject by real faults: little is left to be found out."""
        return False

    def is_interrupted(self) -> bool:
        """Whether the task is to end now, with what it has."""
        return False

    def say(self, text: str) -> None:
        """A sentence that stays."""

    def start(self, subject: str, phase: str) -> None:
        """A phase begins."""

    def step(self, what: str, kills: int, *, schedules: int = 1) -> None:
        """The next schedules begin: `what` is the last one, such as "sink[0].commit.after#1=kill"; `kills` so far."""

    def report(self, what: str) -> None:
        """What takes long before the first schedule begins."""
        self.step(what, 0, schedules=0)

    def found(self, findings: int, text: str) -> None:
        """So many findings break a claim by now; `text` is the newest of them, or empty."""

    def keep(self, outcome: object) -> None:
        """What the task would return if it ended now: all that is left of it if it hangs, or its process dies."""

    def done(self) -> None:
        """This task has ended."""

    def close(self) -> None:
        """Gives the terminal back. Any number of times, also in the middle, such as after Ctrl-C."""


SILENT: Final = Progress()


@dataclass(slots=True)
class SubjectLine:
    """What is known of one subject: its tasks in all shells, of which some still run."""

    subject: str
    seconds: float | None
    began: float
    phase: str = ""
    what: str = ""
    schedules: int = 0
    kills: dict[str, int] = field(default_factory=dict)  # by shell, as are findings
    findings: dict[str, int] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    said_finding: bool = False
    said_at: float = -LINE_INTERVAL_SECONDS

    def numbers(self) -> str:
        kills = sum(self.kills.values())
        return plural(self.schedules, "schedule") + (f", {plural(kills, 'kill')}" if kills else "")

    def found(self) -> str:
        if self.seconds is None:
            return ""
        number = sum(self.findings.values())
        return plural(number, "finding") if number else "no finding"

    def time(self, now: float) -> str:
        spent = f"{now - self.began:.0f}"
        return f"{spent} of {self.seconds:.0f} s" if self.seconds and now - self.began <= self.seconds else f"{spent} s"

    def doing(self) -> str:
        return ": ".join(part for part in (self.phase, in_words(self.what)) if part) or "starting"

    def text(self, now: float, *, width: int) -> str:
        name, most = visible(self.subject), max(12, width // NAME_SHARE)
        name = name if len(name) <= most else f"…{name[1 - most :]}"
        numbers = self.numbers() if width >= WIDTH_OF_NUMBERS else ""
        parts = (name, self.time(now), self.found(), numbers, visible(self.doing()))
        line = "  ".join(part for part in parts if part)
        return line if len(line) <= width else f"{line[: width - 1]}…"


class TaskProgress(Progress):
    """One task of a display: it changes the line of its subject, and has it shown."""

    def __init__(self, display: Display, line: SubjectLine, shell: str) -> None:
        self._display, self._line, self._shell = display, line, shell
        line.running.add(shell)

    def start(self, subject: str, phase: str) -> None:
        is_own = subject == self._line.subject
        self._line.phase, self._line.what = (f"{phase} [{self._shell}]" if is_own else subject), ""
        self._display.show(self._line)

    def step(self, what: str, kills: int, *, schedules: int = 1) -> None:
        line = self._line
        line.what, line.kills[self._shell], line.schedules = what, kills, line.schedules + schedules
        self._display.show(line)

    def say(self, text: str) -> None:
        self._display.say(f"{self._line.subject}: {text}")

    def found(self, findings: int, text: str) -> None:
        line = self._line
        line.findings[self._shell] = findings
        if text and not line.said_finding and line.seconds is not None:
            line.said_finding = True
            self._display.say(text)

    def done(self) -> None:
        self._line.running.discard(self._shell)
        self._display.ended(self._line)


class Display(Progress):
    """The lines of all subjects, in the order in which they began."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._lines: dict[str, SubjectLine] = {}

    def of(self, subject: str, shell: str, seconds: float | None) -> Progress:
        line = self._lines.setdefault(subject, SubjectLine(subject, seconds, self._clock()))
        return TaskProgress(self, line, shell)

    def show(self, line: SubjectLine) -> None:
        """Something of it has changed."""

    def ended(self, line: SubjectLine) -> None:
        """One of its tasks has."""
        if line.running:
            return
        del self._lines[line.subject]
        parts = (line.subject, line.found(), line.numbers(), f"{self._clock() - line.began:.1f} s")
        self.say("  ".join(part for part in parts if part))


class Lines(Display):
    """For logs: one line for each subject every ten seconds."""

    def say(self, text: str) -> None:
        print(visible(text), file=self._stream, flush=True)

    def show(self, line: SubjectLine) -> None:
        now = self._clock()
        if now - line.said_at >= LINE_INTERVAL_SECONDS:
            line.said_at = now
            parts = (line.subject, line.time(now), line.found(), line.numbers(), line.doing())
            self.say("  ".join(part for part in parts if part))


class View(Display):
    """For terminals."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        from rich.console import Console

        super().__init__(stream, clock=clock)
        self._console = Console(file=stream, highlight=False)
        self._drawn = clock() - DRAW_INTERVAL_SECONDS
        self._live: Live | None = None

    def say(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(visible(text)), soft_wrap=True)

    def show(self, line: SubjectLine) -> None:
        from rich.live import Live

        now = self._clock()
        if now - self._drawn < DRAW_INTERVAL_SECONDS:
            return
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._draw(now)

    def ended(self, line: SubjectLine) -> None:
        super().ended(line)
        if self._lines:
            self._draw(self._clock())
        else:
            self.close()

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self, now: float) -> None:
        from rich.text import Text

        self._drawn = now
        if self._live is not None:
            shown = [line.text(now, width=self._console.width - 1) for line in self._lines.values()]
            self._live.update(Text("\n".join(shown), no_wrap=True, overflow="crop"), refresh=True)


def in_words(schedule: str) -> str:
    """What the faults of a schedule do; any other text as it is."""
    faults = [_fault_in_words(fault) for fault in FAULT.finditer(schedule)]
    if len(faults) > FAULTS_MOST:
        faults[1:-1] = [f"{len(faults) - 2} more faults"]
    job = re.search(r"\bjob=(\S+)", schedule)
    parts = [", then ".join(faults) or schedule.replace("no-fault", "no fault")]
    return f"{parts[0]}, in job {job[1]}" if job and faults else parts[0]


def _fault_in_words(fault: re.Match[str]) -> str:
    point, times = fault["point"], int(fault["times"])
    what = DOING.get(fault["kind"], f"{fault['kind']} of {{actor}}").format(actor=fault["actor"] or "the coordinator")
    step, _, side = point.rpartition(".")
    if point.startswith("line("):
        where = f"at {point[5:-1]}"
    elif point.startswith("syscall("):
        where = f"before {point[8:-1]}"
    else:
        where = f"{side} {step}" if side in ("before", "after") else f"at {point}"
    return f"{what} {where}" + (f", time {times}" if times > 1 else "")


def open_progress(stream: TextIO, *, clock: Callable[[], float], quiet: bool = False) -> Progress:
    """The progress display that fits this stream. `clock`: seconds, such as time.monotonic."""
    if quiet:
        return SILENT
    return View(stream, clock=clock) if stream.isatty() else Lines(stream, clock=clock)
