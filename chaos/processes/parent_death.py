"""Ties a process to its parent by prctl(2): it dies with the parent, and a parent adopts orphaned descendants."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from pathlib import Path
from typing import Final

from sinkproof.chaos.clock import Deadline

PR_SET_PDEATHSIG: Final = 1  # from <linux/prctl.h>, as the next one
PR_SET_CHILD_SUBREAPER: Final = 36
REAP_POLL_SECONDS: Final = 0.01
# PR_SET_PDEATHSIG lasts through execve(2), but not through a change of the user: such a program sets it behind that.
OF_A_COMMAND: Final = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
_LIBC: Final = ctypes.CDLL(None, use_errno=True)  # loaded at import: nothing may be loaded between fork and exec


def die_with(parent: int, *, by: signal.Signals = signal.SIGKILL) -> None:
    """This process gets the signal when the *thread* that forked it ends; it exits now if `parent` is dead already."""
    _prctl(PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        os._exit(1)


def dying_with(parent: int, *command: str) -> list[str]:
    """This command, which dies with the parent, and is not run if that is dead already."""
    return [*OF_A_COMMAND, str(parent), *command]


def adopt_orphans() -> None:
    """Orphaned descendants become children of this process, which then collects their wait status."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def reap_orphan(pid: int, *, deadline: Deadline) -> int | None:
    """The wait status of a descendant that was killed, which is adopted as soon as its parents are dead, too; None if
    another process has reaped it.
    """
    while not deadline.over and Path(f"/proc/{pid}").exists():
        try:
            return os.waitpid(pid, 0)[1]
        except ChildProcessError:
            threading.Event().wait(REAP_POLL_SECONDS)
    return None


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option})")
