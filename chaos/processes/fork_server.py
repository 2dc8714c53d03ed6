"""The server's side of processes.py: a process that imports once, forks children on request, and buries them.

It is single-threaded and runs no code of a sink's after the imports. Whatever a child leaves behind (its
process group, and daemons that made a session of their own) comes to this process, because it is their
subreaper, and is killed before the child's death is told: a death that was told means that nothing of the
child runs any more.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import importlib.util
import os
import pickle
import resource
import select
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from sinkproof.chaos.processes.child_channel import EXIT_OUT_OF_MEMORY, Inside, resolve

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
CONTROL_BYTES_MOST: Final = 1 << 16
DESCRIPTORS_MOST: Final = 16
CHILDREN_BYTES_MOST: Final = 1 << 16  # the kernel writes no more than a page at once
SECONDS_TO_BURY_ALL: Final = 10.0  # a process that not even SIGKILL ends within it sits in the kernel: leave it there
PARKED: Final = 2  # children forked ahead: a cycle of spawn, three calls and SIGKILL takes 2.7 instead of 3.8 ms
EXIT_RAISED: Final = 70  # the status of a child whose entry raised
DEATHS: Final = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def main(control_descriptor: int, caller: int) -> None:
    """The server process, from its first instruction to its last."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # not SIGKILL: there are others to kill first
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != caller:
        os._exit(0)
    control = socket.socket(fileno=control_descriptor)
    path, preload, warm = pickle.loads(control.recv(CONTROL_BYTES_MOST))
    sys.path[:] = path
    gc.disable()
    try:
        for name in preload:
            _preload(name)
        for name, *arguments in warm:
            resolve(name)(*arguments)
    except BaseException as error:  # the border to somebody else's module; told, and the end of this process
        said = "".join(traceback.format_exception_only(error)).strip()
        control.send(pickle.dumps(("refused", name, said)))
        os._exit(0)
    gc.freeze()
    control.send(pickle.dumps(("ready", 0, 0)))
    Server(control).run()


def _preload(name: str) -> None:
    """A module's name, or a file, which is loaded under its stem as if its folder were on the path."""
    path = Path(name)
    if path.suffix != ".py":
        importlib.import_module(name)
        return
    if any(getattr(module, "__file__", None) == name for module in list(sys.modules.values())):
        return
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module_name = path.stem if path.stem not in sys.modules else f"preloaded_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


class Server:
    """Forks, reaps, tells. Messages to the caller: (what, pid or token, status or pid)."""

    def __init__(self, control: socket.socket) -> None:
        self.control, self.pid = control, os.getpid()
        self.forked: set[int] = set()
        self.children_before = _children(self.pid)  # of modules that start something when they are imported
        self.deaths: list[tuple[str, int, int]] = []  # not told yet
        self.outbox: deque[bytes] = deque()
        self.parked: deque[tuple[int, socket.socket]] = deque()  # forked ahead, and not sent out yet
        self.passing: list[int] = []  # descriptors on their way to the child they are for
        self.wakeup, self.wakeup_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> NoReturn:
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _awaken)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self.wakeup_end, warn_on_full_buffer=False)
        self.control.setblocking(False)
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        while True:
            poll.register(self.control, select.POLLIN | (select.POLLOUT if self.outbox else 0))
            ready = dict(poll.poll(0 if len(self.parked) < PARKED else None))
            if self.wakeup in ready and signal.SIGTERM in os.read(self.wakeup, 4096):
                self.end()
            if ready.get(self.control.fileno(), 0) & ~select.POLLOUT:
                self.serve()
            self.reap()
            self.flush()
            if len(self.parked) < PARKED:
                self.park()

    def serve(self) -> None:
        try:
            message, self.passing = _receive(self.control)
        except BlockingIOError:
            return
        except OSError:
            self.end()
        if not message:
            self.end()
        token = pickle.loads(message)[0]
        try:
            self.tell("forked", token, self.send_out(message))
        except OSError as error:
            self.tell("not forked", token, error.errno or 0)
        while self.passing:
            os.close(self.passing.pop())

    def send_out(self, message: bytes) -> int:
        while True:
            if not self.parked:
                self.park()
            pid, end = self.parked.popleft()
            with end, suppress(ConnectionError):  # somebody killed it while it waited
                socket.send_fds(end, [message], self.passing)
                return pid

    def park(self) -> None:
        """Forks a child that waits to be sent out. It is ready 2.5 ms later, which nobody has to wait for."""
        end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = os.fork()
            if pid == 0:
                end.close()
                self.become(theirs)
        self.forked.add(pid)
        self.parked.append((pid, end))

    def tell(self, what: str, subject: int, detail: int) -> None:
        self.outbox.append(pickle.dumps((what, subject, detail)))

    def flush(self) -> None:
        while self.outbox:
            try:
                self.control.send(self.outbox[0])
            except BlockingIOError:
                return
            except OSError:
                self.end()
            self.outbox.popleft()

    # -- burying --------------------------------------------------------------------------------

    def reap(self) -> None:
        """Notes every change of state. A group is killed before its leader is reaped: its number cannot be reused."""
        anything = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG | os.WNOWAIT
        while (seen := _wait_id(anything)) is not None:
            pid, ours = seen.si_pid, seen.si_pid in self.forked
            if seen.si_code not in DEATHS:
                with suppress(ChildProcessError):  # it was killed meanwhile, and has only its death left to tell
                    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
                if ours:
                    stopped = seen.si_code == os.CLD_STOPPED
                    self.tell("stopped" if stopped else "continued", pid, seen.si_status)
                continue
            if ours:
                _kill(os.killpg, pid)
            _, status = os.waitpid(pid, 0)
            if ours:
                self.forked.discard(pid)
                self.deaths.append(("died", pid, status))
        if self.deaths and not self.kill_strangers():
            for death in self.deaths:
                self.tell(*death)
            self.deaths.clear()

    def kill_strangers(self) -> bool:
        """Kills what came to us from the dead; whether there was any: its death will wake us again."""
        strangers = _children(self.pid) - self.forked - self.children_before
        for pid in strangers:
            _kill(os.kill, pid)
        return bool(strangers)

    def end(self) -> NoReturn:
        """Kills everything that came from here, however deep, and exits."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, SECONDS_TO_BURY_ALL)
        for pid in self.forked:
            _kill(os.killpg, pid)
            _kill(os.kill, pid)
        while True:
            for pid in _children(self.pid):
                _kill(os.kill, pid)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                os._exit(0)

    # -- the child ------------------------------------------------------------------------------

    def become(self, parked: socket.socket) -> NoReturn:
        """The rest of a child's life. It must never return into the server's stack."""
        status = EXIT_RAISED
        try:
            os.setsid()
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            _prctl(PR_SET_CHILD_SUBREAPER, 1)  # while it lives, its daemons are its own
            if os.getppid() != self.pid:
                os._exit(0)
            self._shed()
            gc.enable()
            status = _live(parked)
        except SystemExit as asked:
            status = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
        except MemoryError:
            status = EXIT_OUT_OF_MEMORY
        except BaseException:  # the border: it ends here, and its caller finds this in the output
            traceback.print_exc()
        finally:
            os._exit(status & 0xFF)

    def _shed(self) -> None:
        """What is the server's own."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.close(self.wakeup)
        os.close(self.wakeup_end)
        self.control.close()
        for _, end in self.parked:
            end.close()
        for descriptor in self.passing:
            os.close(descriptor)


def _live(parked: socket.socket) -> int:
    """Waits to be sent out, then calls the entry."""
    with parked:
        message, descriptors = _receive(parked)
    if not message:
        return 0
    _, (address_space_bytes, data_bytes) = pickle.loads(message)
    channel, output, *others = descriptors
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, address_space_bytes)
    _limit(resource.RLIMIT_DATA, data_bytes)
    inside = Inside(socket.socket(fileno=channel), others)
    first = inside.receive()
    if first is None:
        return 0
    entry, arguments = pickle.loads(first)
    resolve(entry)(inside, *arguments)
    return 0


def _receive(end: socket.socket) -> tuple[bytes, list[int]]:
    message, descriptors, _, _ = socket.recv_fds(end, CONTROL_BYTES_MOST, DESCRIPTORS_MOST)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # recv_fds ignores MSG_CMSG_CLOEXEC
    return message, descriptors


def _awaken(number: int, _: object) -> None:
    """Python writes to the wakeup descriptor only for signals that have a handler."""


def _limit(which: int, most: int | None) -> None:
    if most is not None:
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))


def _wait_id(options: int) -> Any:
    try:
        return os.waitid(os.P_ALL, 0, options)
    except ChildProcessError:
        return None


def _kill(how: Callable[[int, int], None], pid: int) -> None:
    try:
        how(pid, signal.SIGKILL)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EPERM):  # gone; or a group of zombies only
            raise


def _children(pid: int) -> set[int]:
    try:
        descriptor = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)  # 5 us; a Path takes 25
        try:
            return set(map(int, os.read(descriptor, CHILDREN_BYTES_MOST).split()))
        finally:
            os.close(descriptor)
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()]
        return {int(stat.split()[0]) for stat in stats if stat.rpartition(")")[2].split()[1] == str(pid)}
