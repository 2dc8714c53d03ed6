"""Forks the processes that may be killed, so that their death harms neither the parent nor the parent's sockets.

What a child inherits is the danger. It must not outlive its parent (PR_SET_PDEATHSIG), must not hold the parent's
connections open (a JVM would never notice a dead worker), and must never return into the code above the fork, which
belongs to Spark's worker. Forks come from the main thread only: PR_SET_PDEATHSIG refers to the thread that forked.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from typing import Final

from sinkproof.chaos.processes.parent_death import die_with

STANDARD_STREAMS: Final = 3


class ForkedProcess:
    """A forked process, watched by its pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)
        self.status: int | None = None

    def fileno(self) -> int:
        return self.descriptor

    def stopped(self) -> bool:
        """Whether SIGSTOP has stopped it; if it has died instead, `status` is set."""
        if self.status is not None:
            return False
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            return True
        self.status = status if pid else None
        return False

    def reap(self) -> int:
        """The wait status; waits for the end."""
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        return self.status

    def end(self, *, grace_seconds: float = 0.0) -> int:
        """The wait status of a child that is given time to end by itself, and then killed."""
        if self.status is None and grace_seconds:
            select.select([self.descriptor], [], [], grace_seconds)
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
        return self.reap()


def fork(body: Callable[[], None], *, keep: Collection[int] = ()) -> ForkedProcess:
    """A child that runs `body` and exits. `keep`: the inherited descriptors that it may use; others lead nowhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return ForkedProcess(pid)
    code = 1
    try:  # never left but by _exit
        die_with(parent)
        _let_go(keep)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the command, which then stops us
        body()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # the border of a process
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _let_go(keep: Collection[int]) -> None:
    """Overwritten, not closed: Python objects of the parent still hold the numbers, and may close a reused one."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number >= STANDARD_STREAMS and number != nowhere and number not in keep:
            try:
                os.fstat(number)
            except OSError:
                continue  # the listing's own
            os.dup2(nowhere, number)
