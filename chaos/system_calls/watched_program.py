"""Runs any program under the watch: `crash_at_each_call` kills it before each outward call, and lets it recover.

    with ForkServer() as server:
        for run in crash_at_each_call(server, ["./pipeline"], folder, prepare=empty_the_folder, read=what_is_there):
            assert run.seen == expected, run.place

A program that is run again goes on from what the dead one has left, until it ends well. The first run is not killed.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ChildProcess, ForkServer, NoReply
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.place_names import PlaceNames
from sinkproof.chaos.system_calls.seccomp_filter import put_on, reason, receive_listener
from sinkproof.chaos.system_calls.supervisor import Armed, Record, SystemCallWatch
from sinkproof.chaos.system_calls.waiting_request import WaitingRequest

ENTRY: Final = "sinkproof.chaos.system_calls.watched_program:become"
EXIT_NOT_FOUND: Final = 127
START_SECONDS: Final = 30.0
RUN_SECONDS: Final = 60.0
RESTARTS_MOST: Final = 5


class NotWatched(Exception):
    """System calls of this program cannot be watched. The message says why, and what to allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledRun:
    """`place`: the call before which the program died, with its occurrence; "": this run was not killed. `endings`: the
    wait status of each start. `seen`: what was read in the end.
    """

    place: str
    endings: Sequence[int | None]
    seen: Any

    @property
    def recovered(self) -> bool:
        return self.endings[-1] == 0


def become(inside: Inside, words: Sequence[str], place: tuple[str, Mapping[str, str]]) -> NoReturn:
    """The entry of the process, which turns into the program. `place`: its working folder, and its variables."""
    for number, descriptor in enumerate(inside.descriptors):
        os.dup2(descriptor, number)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that is inherited
        signal.signal(ignored, signal.SIG_DFL)
    put_on(inside.channel)
    folder, variables = place
    try:
        os.chdir(folder)
        os.execvpe(words[0], list(words), {**os.environ, **variables})
    except OSError as error:
        print(f"cannot run {words[0]}: {error}", file=sys.stderr, flush=True)
        os._exit(EXIT_NOT_FOUND)


def watch_of(
    child: ChildProcess,
    folder: Path,
    *,
    marks: Callable[[], int] = int,
    record: Record | None = None,
    armed: Armed | None = None,
    elsewhere: dict[str, bool] | None = None,
    to_servers: bool = False,
    held: WaitingRequest | None = None,
) -> SystemCallWatch:
    """Of a child that puts the filter on itself: its first outward call waits for this. `elsewhere`, `to_servers`: as
    for PlaceNames; `held`: as for SystemCallWatch. Raises NotWatched; the child goes on then.
    """
    try:
        child.await_ready(child.channel.fileno(), select.POLLIN, Deadline(START_SECONDS))
        listener, own_socket = receive_listener(child.channel)
    except (NoReply, OSError) as silence:
        raise NotWatched(f"the program ended before it could be watched: {silence}") from silence
    if listener < 0:
        raise NotWatched(reason(-listener))
    kill = partial(child.signal, signal.SIGKILL)
    names = PlaceNames(str(folder), own_socket=own_socket, elsewhere=elsewhere, to_servers=to_servers)
    return SystemCallWatch(
        listener, names, kill=kill, marks=marks, record=record, armed=armed, process=child.pid, held=held
    )


@contextmanager
def watched(
    server: ForkServer,
    words: Sequence[str],
    folder: Path,
    *,
    variables: Mapping[str, str],
    record: Record | None = None,
    armed: Armed | None = None,
    elsewhere: dict[str, bool] | None = None,
    to_servers: bool = False,
    held: WaitingRequest | None = None,
) -> Iterator[tuple[ChildProcess, SystemCallWatch]]:
    """The program, which reads nothing, and its watch. Nothing of it runs any more afterwards. `armed`: a place that is
    to be struck, from its very first call on. `held`: as for SystemCallWatch.
    """
    nothing = os.open(os.devnull, os.O_RDONLY)
    child = server.spawn(ENTRY, list(words), (os.getcwd(), dict(variables)), descriptors=[nothing])
    os.close(nothing)
    try:
        watch = watch_of(
            child, folder, record=record, armed=armed, elsewhere=elsewhere, to_servers=to_servers, held=held
        )
        try:
            yield child, watch
        finally:
            child.kill()
            watch.close()
    finally:
        child.kill()
        child.close()


def crash_at_each_call(
    server: ForkServer,
    words: Sequence[str],
    folder: Path,
    *,
    prepare: Callable[[], object],
    read: Callable[[], Any],
    variables: Mapping[str, str] | None = None,
    seconds: float = RUN_SECONDS,
) -> Iterator[KilledRun]:
    """One run for each outward call below `folder`, or to a socket, after one without a kill. `prepare` puts the
    outside back to its beginning before each run, `read` shows it after the last start of each. `seconds`: for one
    start.
    """

    def run(point: str, occurrence: int) -> tuple[KilledRun, list[str]]:
        prepare()
        endings: list[int | None] = []
        met = ""
        points: list[str] = []
        while not endings or (endings[-1] != 0 and len(endings) <= RESTARTS_MOST):
            armed = (point, occurrence, Act.KILL) if point and not endings else None
            with watched(server, words, folder, variables=variables or {}, armed=armed) as (child, watch):
                endings.append(child.join(Deadline(seconds)))
                met = met or (f"{point}#{occurrence}" if watch.take_strike() else "")
                points = points or watch.take_points()
        return KilledRun(place=met, endings=tuple(endings), seen=read()), points

    first, points = run("", 0)
    yield first
    counted: Counter[str] = Counter()
    for point in points:
        counted[point] += 1
        killed, _ = run(point, counted[point])
        if killed.place:  # else it met another call there, and is void
            yield killed


def why_not_watched() -> str:
    """For this machine: why programs cannot be watched, and what to allow; empty if they can."""
    with tempfile.TemporaryDirectory() as folder, ForkServer() as server:
        made = Path(folder, "made")
        try:
            with watched(server, ["mkdir", str(made)], Path(folder), variables={}) as (child, watch):
                child.join(Deadline(START_SECONDS))
                points, unseen = watch.take_points(), list(watch.unseen)
        except NotWatched as error:
            return str(error)
    return unseen[0] if unseen else "" if points else "no system call was notified"
