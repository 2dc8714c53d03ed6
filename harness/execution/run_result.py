"""The result of one run of one schedule: a value that campaigns count, judge and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.chaos.services.inside_run import CallWindow
from sinkproof.judging.oracle import Anomaly
from sinkproof.reports.document import SourceLine


def restarts_in(history: Sequence[tuple[Any, ...]]) -> int:
    return max(0, sum(1 for _, _, _, what, _ in history if what == "generation") - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    schedule: Schedule
    struck: tuple[Fault, ...]  # the faults that were injected; the others never found their point
    anomalies: tuple[Anomaly, ...]
    trace: list[tuple[int, str]]  # every point passed, in order: (actor id, point)
    names: tuple[str, ...]  # of actors by id
    history: list[tuple[Any, ...]]  # (time in ms, actor, generation, what, detail)
    finished: bool
    failure: str
    rows_committed: int
    log: bytes = b""  # where it is not made of the history
    struck_line: SourceLine | None = None
    readings: int = 0  # of the committed view, while the job ran
    doubtful_hook: str = ""  # what is wrong with a hook of the contract
    unreadable: str = ""  # why the committed view could not be read in the end
    kills: int = 0  # counted from wait statuses
    handles_sigterm: bool = False  # in runs without faults: whether an attempt did so
    broken_rule: str = ""  # of the coordinator, in runs that checked it
    restarts: int = 0
    checkpoints_pending: int = 0  # at once, at most; in runs that checked the coordinator
    moved_wall_clock: bool = False  # of attempts
    unwatched: str = ""  # why system calls were not watched
    unseen: tuple[str, ...] = ()  # why the watch may have missed changes
    elsewhere: tuple[str, ...] = ()  # names of what a command changed outside of its folder
    kept_elsewhere: tuple[str, ...] = ()  # paths of that which was there before the run, or is after it
    paths_elsewhere: tuple[str, ...] = ()  # of all that was changed there, temporary files, too
    peers: tuple[str, ...] = ()  # addresses to which it connected
    lines_of_children: tuple[str, ...] = ()  # points of what processes that attempts forked have executed
    bound: tuple[str, ...] = ()  # addresses outside of the folder that it has bound
    calls_apart: frozenset[tuple[str, str, int]] = frozenset()  # (actor, point, occurrence): not by the calls' thread
    statements: frozenset[tuple[str, str, int]] = frozenset()  # the same: requests that a database can refuse
    losses_would_leave: Sequence[tuple[str, Mapping[str, int]]] = ()  # before each call; see unforced_changes.py
    power_took: int = 0  # losses of power that took something away
    mapped_across_losses: tuple[str, ...] = ()  # files that were mapped then, and not emptied since
    inside: tuple[CallWindow, ...] = ()  # the outward calls of the external system, where they were watched
    killed_inside: str = ""  # a sentence: which external system, where, and what it had acknowledged
    resumed_early: bool = False  # a suspended attempt, as another one waited
    read_concurrently: bool = False  # a reader ran beside the sinks
    joined: bool = False  # ended in a state from which an earlier run had gone on: the rest is that run's

    @property
    def event_log(self) -> bytes:
        """Byte-equal for the same schedule and seed, in any process."""
        return self.log or "\n".join(map(repr, self.history)).encode()

    @property
    def fired(self) -> bool:
        """Whether every fault of the schedule found its point."""
        return len(self.struck) == len(self.schedule.faults)
