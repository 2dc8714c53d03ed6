"""Points in real processes: each is counted, and the process that reaches the armed point injects the fault itself."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Mapping
from typing import Final, NoReturn

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.faults_of_hosts import CARRIED_OUT, CUTS, KILL_HOST, NOT_STRUCK
from sinkproof.chaos.lines import line_on_stack
from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.chaos.shared.event_log import EventLog
from sinkproof.chaos.shared.point_counts import PointCounts
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder

NO_FILES: Final[Mapping[str, str]] = {}
STRIKE_SECONDS: Final = 100.0  # of what is outside the host; a run without progress for two minutes counts as hung
PAUSE_SECONDS: Final = 0.05  # the others are notified of a checkpoint within 10 ms


class Points:
    """The points of one actor's process. `message_fault` applies to the message that is being sent."""

    def __init__(
        self,
        folder: RunFolder,
        actor: str,
        *,
        events: EventLog,
        generation: int = 0,
        files: Mapping[str, str] = NO_FILES,
    ) -> None:
        """`files`: the sink's own code; the line in which a fault strikes is recorded."""
        self.files, self.folder, self.actor, self.events, self.generation = files, folder, actor, events, generation
        self.pid, self.message_fault = os.getpid(), ""
        self._armed = folder.armed()
        self._counts: PointCounts = folder.counts(actor)
        self._quiet = False

    def reach(self, point: str) -> None:
        """May not return."""
        if self._quiet or os.getpid() != self.pid:
            return
        count = self._counts.add(point)
        fault = self._armed.next()
        if fault is not None and fault.point == point and fault.actor == self.actor and count >= fault.occurrence:
            self._inject()

    def _inject(self) -> None:
        fault = self._armed.take()
        line = line_on_stack(self.files)
        about = {"parent": os.getppid(), "line": line, "generation": self.generation}
        self.events.record("struck", fault=str(fault), actor=self.actor, **about)
        KINDS[fault.kind].inject(self)

    # -- what a fault may do (chaos/faults/fault_target.py) ------------------------------------------

    def kill_actor(self) -> NoReturn:
        os.kill(self.pid, signal.SIGKILL)
        _never()

    def kill_worker(self) -> NoReturn:
        """The parent process is Spark's worker, and this process dies with it."""
        os.kill(os.getppid(), signal.SIGKILL)
        _never()

    def kill_executor(self) -> NoReturn:
        """Attempt, worker, daemon, JVM: each is the child of the next."""
        parents = parents_of_all()
        os.kill(parents[parents[os.getppid()]], signal.SIGKILL)
        _never()

    def kill_job(self) -> NoReturn:
        """The driver and everything below it: JVM, daemons, workers, coordinator, attempts. This process comes last."""
        driver = int(self.folder.processes.read_text())
        kill_below(driver, last=self.pid)
        _never()

    def stop_actor(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self._quiet = True  # a zombie by now: its successor has the points of this actor

    def pause_actor(self) -> None:
        """Not by a signal: its supervisor would replace it. The thread that runs the sink waits."""
        threading.Event().wait(PAUSE_SECONDS)

    def strike_host(self, how: str) -> None:
        """The fault strikes before this returns: what lies outside the host carries it out. The attempt on a host that
        was cut off goes on as a zombie, when its successor runs on another host. A fault that was not carried out has
        no effect here, and is recorded: such a run shows nothing.
        """
        if not self._is_carried_out(how):
            self.events.record(NOT_STRUCK, actor=self.actor)
            return
        if how == KILL_HOST:
            _never()
        if how in CUTS:
            self.stop_actor()

    def _is_carried_out(self, how: str) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            folder = os.open(self.folder.path, os.O_PATH | os.O_DIRECTORY)  # a path of any length: an address holds 107
            asking.settimeout(STRIKE_SECONDS)
            try:
                asking.connect(f"/proc/self/fd/{folder}/{self.folder.hosts.name}")
                asking.send(how.encode())
                return asking.recv(len(CARRIED_OUT)) == CARRIED_OUT
            except OSError:
                return False
            finally:
                os.close(folder)

    def lose_message(self) -> None:
        self.message_fault = "lost"

    def decline_vote(self) -> None:
        self.message_fault = "declined"


def _never() -> NoReturn:
    while True:  # the signal is on its way
        threading.Event().wait()


def kill_below(root: int, *, last: int) -> None:
    """SIGKILL for the root and all its descendants; `last`, which does it, after its own ancestors, topmost first.

    All stop before the first one dies, so that no process can observe and report a death.
    """
    ancestors, others = victims(root, parents_of_all(), last=last)
    all_pids = (*reversed(ancestors), *others)
    for number, pids in ((signal.SIGSTOP, all_pids), (signal.SIGKILL, (*others, *reversed(ancestors), last))):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def victims(root: int, parents: dict[int, int], *, last: int) -> tuple[list[int], list[int]]:
    """The ancestors of `last` up to the root, nearest first, and what else dies, but for `last`.

    An attempt on another host is not below the driver: its ancestors are an executor, which ends without its driver,
    and the processes of this machine that have started the cluster. None of these may die or be suspended.
    """
    above, pid = list[int](), last
    while pid != root and pid in parents:
        pid = parents[pid]
        above.append(pid)
    ancestors = above if pid == root else []
    others = [pid for pid in descendants(root, parents) if pid != last and pid not in ancestors]
    return ancestors, others if ancestors else [root, *others]
