"""Kills a service *inside*: before an outward call of its data folder, and before one of the restart after that.

The time of a run has windows: from a request of the sink that pre-commits, commits or aborts to the moment at which the
service has settled it. A place is named by its window, the call, and the occurrence of that call within the window:
`service-notify_complete[2].syscall(write __transaction_state-*/*.log)#1=kill`. The restarts of a run are windows of
their own: `service-restart[1].syscall(rename meta.tmp)#1=kill`. A killed service is started again at once.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Self

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import Fault
from sinkproof.chaos.services.inside_run import RESTART, STEPS, CallWindow, InsideRun
from sinkproof.chaos.services.local_service import LocalService
from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.place_names import SOCKET, OutwardChange, PlaceNames, Tracee
from sinkproof.chaos.system_calls.supervisor import SystemCallWatch
from sinkproof.chaos.system_calls.watched_program import NotWatched

SCRATCH_NAME: Final = re.compile(r"sinkproof-\d+-[a-z0-9_]{8}")
QUIET_SECONDS: Final = 0.1  # after no outward call for so long, and if no thread runs, what was requested is done
BRIEFLY_QUIET_SECONDS: Final = 0.01  # enough where no fault is armed: a later call is counted in the next window
BEFORE_SECONDS: Final = 0.3  # of a run: what the last one has left is removed
QUIET_SECONDS_MOST: Final = 5.0
IDLE_SECONDS: Final = 6.0  # in which a service without a request shows what it writes all the same
KILLED: Final = -signal.SIGKILL


class DataFolderNames(PlaceNames):
    """Files only: what a service sends to its clients changes nothing that a restart could find. What a contract has
    named after its scratch folder has another name in each process. `alike`: as of the service.
    """

    def __init__(self, folder: str, *, alike: Sequence[tuple[re.Pattern[str], str]] = ()) -> None:
        super().__init__(folder)
        self.alike = ((SCRATCH_NAME, "0"), *alike)

    def below(self, path: str) -> str:
        inside = path.removeprefix(self.folder)
        if inside == path:
            return super().below(path)
        for pattern, name in self.alike:
            inside = pattern.sub(name, inside)
        return super().below(self.folder + inside)

    def change(self, tracee: Tracee, name: str, arguments: tuple[int, ...]) -> OutwardChange | None:
        found = super().change(tracee, name, arguments)
        return None if found is None or found.about == SOCKET else found


class WatchedService:
    """A service of one node that this process started. It is under the watch while the block lasts, and restarted when
    the block begins and ends. `await_settled` returns when nothing that was requested is pending.

    A window in which a fault is armed has a thread, which starts the service again while the engine waits for the sink.
    """

    def __init__(self, service: LocalService, *, await_settled: Callable[[], object]) -> None:
        (self.node,) = service.nodes
        self.service, self.await_settled = service, await_settled
        self.unseen: dict[str, None] = {}  # changes that are no calls
        self.run = InsideRun()
        self._pending: list[Fault] = []
        self._records = True
        self._counted: Counter[str] = Counter()  # windows of each step
        self._step = ""  # of the window
        self._returned = False  # the sink's call, without an error
        self._calls: list[str] = []  # of the window
        self._watch: SystemCallWatch | None = None
        self._over = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.failed: BaseException | None = None  # why the service is not back; the run shows nothing then

    def __enter__(self) -> Self:
        self.service.stop()
        shutil.rmtree(self._data_before, ignore_errors=True)  # of a watch that was not ended
        shutil.copytree(self._data, self._data_before, symlinks=True)
        self.service.on_spawn = self._spawned
        try:
            self.service.start()
        except NotWatched:
            self.service.on_spawn = None
            self.service.kill()
            shutil.rmtree(self._data_before)
            self.service.start()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.service.on_spawn = None
        self.service.stop()
        self._end_watch()
        os.close(self._over)
        shutil.rmtree(self._data_before)
        self.service.start()

    @property
    def _data(self) -> Path:
        return self.service.data_folder(self.node)

    @property
    def _data_before(self) -> Path:
        """A copy, of before the first kill."""
        return self.service.folder / "data-before"

    def renew(self) -> None:
        """It does not start again with what it has: it goes on with what it had before the first kill."""
        self.service.kill()
        self._end_watch()
        shutil.rmtree(self._data)
        shutil.copytree(self._data_before, self._data, symlinks=True)
        self.failed, self._pending = None, []
        self.service.start()

    def begin(self, faults: Sequence[Fault]) -> None:
        """A new run, for which all is made ready. Each fault is armed after the one before it has struck."""
        self._await_quiet(seconds=BEFORE_SECONDS)
        self.run, self._pending, self._counted = InsideRun(service=self.title), list(faults), Counter()
        self._records = not faults

    @property
    def title(self) -> str:
        return f"{self.service.title} {self.service.version}"

    def all_unseen(self) -> list[str]:
        """Why changes may have been missed."""
        return [*(self.unseen | (self._watch.unseen if self._watch else {}))]

    def background(self) -> frozenset[str]:
        """What it passes again and again without any request. What it passes once may be the rest of a commit."""
        return self._passed_while_idle() & self._passed_while_idle()

    def _passed_while_idle(self) -> frozenset[str]:
        self._take()
        self._is_readable(IDLE_SECONDS)
        return frozenset(self._take())

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        """A call of the sink. On return the service lives, and has settled what it was asked for."""
        if step not in STEPS:
            yield
            return
        self._begin_window(step)
        armed = self._armed()
        assert self._watch is not None
        keeper = threading.Thread(target=self._keep, daemon=True)
        if armed is not None:
            self._watch.arm(*armed)
            keeper.start()
        try:
            yield
            self._returned = True
        finally:
            self._end(keeper if armed is not None else None)

    def _end(self, keeper: threading.Thread | None) -> None:
        if keeper is not None:
            os.eventfd_write(self._over, 1)
            keeper.join()
            os.eventfd_read(self._over)
        if self.failed is not None:
            return  # no exception here: it would be taken for one of the sink
        assert self._watch is not None
        self._watch.disarm()
        self.await_settled()
        if self._records or self._pending:
            self._await_quiet(seconds=QUIET_SECONDS if self._records else BRIEFLY_QUIET_SECONDS)
        self._end_window()

    # -- windows ----------------------------------------------------------------------------------

    def _begin_window(self, step: str) -> None:
        self._take()  # what came between two windows belongs to none
        self._step, self._calls = step, []
        self._returned &= step == RESTART
        self._counted[step] += 1

    def _end_window(self) -> None:
        self._calls += self._take()
        self.run.windows.append(CallWindow(step=self._step, number=self._counted[self._step], calls=tuple(self._calls)))

    def _armed(self) -> tuple[str, int, Act] | None:
        """The next fault, if it strikes in this window."""
        for fault in self._pending[:1]:
            if fault.actor == CallWindow(step=self._step, number=self._counted[self._step], calls=()).actor:
                return fault.point, fault.occurrence, Act.KILL
        return None

    def _take(self) -> list[str]:
        return [] if self._watch is None else self._watch.take_points()

    def _await_quiet(self, *, seconds: float = QUIET_SECONDS) -> bool:
        """Whether it was struck meanwhile. Else what was requested is done."""
        deadline = Deadline(QUIET_SECONDS_MOST)
        while not deadline.over:
            if self._is_readable(seconds):
                return True
            calls = self._take()
            self._calls += calls
            if not calls and not is_running(self.service.pid(self.node.number)):
                return False
        return False

    # -- the thread of a window -------------------------------------------------------------------

    def _keep(self) -> None:
        try:
            while self._is_readable(None, self._over) or self._await_quiet() or self._was_struck_last():
                self._restart()
        except BaseException as error:  # the owner of the run raises it
            self.failed = error

    def _was_struck_last(self) -> bool:
        """Nothing is struck after this look."""
        assert self._watch is not None
        self._watch.disarm()
        return self._is_readable(0)

    def _is_readable(self, seconds: float | None, *others: int) -> bool:
        """Whether it was struck; None: waits for that, or for one of the others."""
        assert self._watch is not None
        poll = select.poll()
        for descriptor in (self._watch.struck, *others):
            poll.register(descriptor, select.POLLIN)
        ready = dict(poll.poll(None if seconds is None else seconds * 1000))
        return self._watch.struck in ready

    def _restart(self) -> None:
        """After a strike. It may be struck again while it starts. A call that returns before the service lives again
        had been answered before its death.
        """
        windows_before, is_first = len(self.run.windows), not self.run.struck
        while self._note_strike():
            self._begin_window(RESTART)
            may_die = self._armed() is not None
            try:
                self.service.start()
            except ServiceFailed:
                if not (may_die and self._is_readable(0)):  # it has ended by itself
                    raise
        if is_first:
            self.run.acknowledged, self.run.windows_before = self._returned, windows_before

    def _note_strike(self) -> bool:
        assert self._watch is not None
        if self._watch.take_strike() is None:
            return False
        self.run.kills += self.service.await_death(self.node) == KILLED
        self._end_window()
        self.run.struck.append(self._pending.pop(0))
        return True

    def _spawned(self, listener: int) -> None:
        self._end_watch()
        names = DataFolderNames(str(self._data), alike=self.service.alike)
        kill = partial(self.service.strike, self.node)
        self._watch = SystemCallWatch(listener, names, kill=kill, armed=self._armed())

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            self.unseen |= watch.unseen
            watch.close()


def is_running(pid: int) -> bool:
    """Whether any thread of the process runs, or waits for a core or a disk."""
    for file in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            if file.read_text().rpartition(")")[2].split()[0] in ("R", "D"):
                return True
    return False
