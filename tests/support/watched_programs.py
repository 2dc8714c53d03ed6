"""Programs under a watch of their system calls, with faults at some of these."""

from __future__ import annotations

import select
import sys
from pathlib import Path

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child import ChildProcess
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.supervisor import Record, SystemCallWatch
from sinkproof.chaos.system_calls.watched_program import watched

SECONDS = 300.0


def run(
    server: ForkServer, folder: Path, words: list[str], *faults: tuple[str, int, Act], record: Record | None = None
) -> tuple[int | None, list[str], list[Act], SystemCallWatch]:
    """A program up to its end, with these faults one after the other; a held call goes on at once."""
    struck, waiting = [], list(faults)
    armed = waiting.pop(0) if waiting else None
    with watched(server, words, folder, variables={"FOLDER": str(folder)}, record=record, armed=armed) as (
        child,
        watch,
    ):
        points: list[str] = []
        while (status := ended(child, watch)) is None:
            points += watch.take_points()
            act = watch.take_strike()
            assert act is not None
            struck.append(act)
            if waiting:
                watch.arm(*waiting.pop(0))
            watch.go_on()
        if (act := watch.take_strike()) is not None and act is not Act.KILL:  # it ended before it was seen to be struck
            struck.append(act)
        return status, points + watch.take_points(), struck, watch


def ended(child: ChildProcess, watch: SystemCallWatch) -> int | None:
    """The wait status; None: a fault was injected that the program survives."""
    deadline = Deadline(SECONDS)
    poll = select.poll()
    poll.register(watch.struck, select.POLLIN)
    poll.register(child.server.control, select.POLLIN)
    while child.alive and not deadline.over:
        if watch.struck in dict(poll.poll(100)) and not watch_kills(watch):
            return None
    return child.join(deadline)


def watch_kills(watch: SystemCallWatch) -> bool:
    return watch._strike is Act.KILL


def perl(program: str) -> list[str]:
    return ["perl", "-e", program]


def python(program: str) -> list[str]:
    return [
        sys.executable,
        "-S",
        "-E",
        "-c",
        f"import ctypes, mmap, os, socket\nos.chdir(os.environ['FOLDER'])\n{program}",
    ]
