"""The fork server process: it imports once, forks children on request, reaps them, and reports their wait statuses.

It is single-threaded and runs no code of a sink after the imports. As the subreaper of its children it adopts the
descendants that a dead child leaves behind (its process group, and daemons with a session of their own). They are
killed before the death of the child is reported: then no descendant of the child runs any more. In some jobs they have
some time to end by themselves before that: a death of a process need not be one of its host.
"""

from __future__ import annotations

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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes import process_wide_state, recorded_inputs
from sinkproof.chaos.processes.child_channel import EXIT_OUT_OF_MEMORY, Inside, resolve
from sinkproof.chaos.processes.parent_death import adopt_orphans, die_with
from sinkproof.chaos.processes.process_table import parents_of_all

CONTROL_BYTES_MOST: Final = 1 << 16
DESCRIPTORS_MOST: Final = 16
CHILDREN_BYTES_MOST: Final = 1 << 16  # the kernel writes no more than a page at once
KILL_ALL_SECONDS: Final = 10.0  # a process that survives SIGKILL for longer is blocked in the kernel: left alone
PREFORKED_LEAST: Final = 2  # children forked in advance: spawn, three calls and SIGKILL take 2.7 instead of 3.8 ms
PREFORKED_MOST: Final = 4  # forked in a row: what the server writes between two forks is copied
EXIT_RAISED: Final = 70  # the exit status of a child after an exception in its entry
# Instead of a token, where the message is no request for a child: the call of most, or the seconds that orphans have.
REPEATED_CALL, ORPHANS_LIVE = 0, -1
DEATHS: Final = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)

Call = tuple[Callable[..., Any], Sequence[Any]]  # the entry of a child and its arguments


def main(control_descriptor: int, caller: int) -> None:
    """The server process, from its first instruction to its last."""
    die_with(caller, by=signal.SIGTERM)  # not SIGKILL: the server kills all children first
    adopt_orphans()
    control = socket.socket(fileno=control_descriptor)
    path, preload, warm, recording = pickle.loads(control.recv(CONTROL_BYTES_MOST))
    sys.path[:] = path
    if recording is not None:
        recorded_inputs.start(recording)
    gc.disable()
    try:
        for name in preload:
            _preload(name)
        for name, *arguments in warm:
            resolve(name)(*arguments)
        recorded_inputs.note_loaded()
        process_wide_state.note_before_forks()
    except BaseException as error:  # border to a foreign module: the error is reported, and this process ends
        reason = "".join(traceback.format_exception_only(error)).strip()
        control.send(pickle.dumps(("refused", name, reason)))
        os._exit(0)
    gc.freeze()
    control.send(pickle.dumps(("ready", 0, 0)))
    Server(control).run()


def _preload(name: str) -> None:
    """`name`: of a module, or of a file, which is imported under its stem with its folder on the path."""
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


class Server:
    """Forks, reaps and reports. Messages to the caller: (event, pid or token, status or pid)."""

    def __init__(self, control: socket.socket) -> None:
        self.control, self.pid = control, os.getpid()
        self.forked: set[int] = set()
        self.children_before = children_of(self.pid)  # started by preloaded modules
        self.deaths: list[tuple[str, int, int]] = []  # not reported yet
        self.outbox: deque[bytes] = deque()
        self.preforked: deque[tuple[int, socket.socket]] = deque()  # forked in advance, and not assigned yet
        self.passing: list[int] = []  # descriptors to be passed to the next child
        self.orphans_seconds, self.orphans_end = 0.0, Deadline(0)
        self.repeated: dict[bytes, Call] = {}  # at most one: the call of most children, unpickled once
        self.wakeup, self.wakeup_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> NoReturn:
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _ignore)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self.wakeup_end, warn_on_full_buffer=False)
        self.control.setblocking(False)
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        while True:
            poll.register(self.control, select.POLLIN | (select.POLLOUT if self.outbox else 0))
            waits = int(self.orphans_end.left * 1000) + 1 if self.deaths else None
            ready = dict(poll.poll(0 if len(self.preforked) < PREFORKED_LEAST else waits))
            if self.wakeup in ready and signal.SIGTERM in os.read(self.wakeup, 4096):
                self.end()
            if ready.get(self.control.fileno(), 0) & ~select.POLLOUT:
                self.serve()
            self.reap()
            self.flush()
            if len(self.preforked) < PREFORKED_LEAST:
                while len(self.preforked) < PREFORKED_MOST:
                    self.prefork()

    def serve(self) -> None:
        try:
            message, self.passing = _receive(self.control)
        except BlockingIOError:
            return
        except OSError:
            self.end()
        if not message:
            self.end()
        token, detail = pickle.loads(message)
        if token == REPEATED_CALL:
            self.repeated = {detail: _unpickled(detail)}
            return
        if token == ORPHANS_LIVE:
            self.orphans_seconds = detail
            return
        try:
            self.report("forked", token, self.assign(message))
        except OSError as error:
            self.report("not forked", token, error.errno or 0)
        while self.passing:
            os.close(self.passing.pop())

    def assign(self, message: bytes) -> int:
        while True:
            if not self.preforked:
                self.prefork()
            pid, end = self.preforked.popleft()
            with end, suppress(ConnectionError):  # it was killed while it waited
                socket.send_fds(end, [message], self.passing)
                return pid

    def prefork(self) -> None:
        """Forks a child that waits for its message. It is ready 2.5 ms later, before the next request needs it."""
        end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = os.fork()
            if pid == 0:
                end.close()
                self.run_child(theirs)
        self.forked.add(pid)
        self.preforked.append((pid, end))

    def report(self, what: str, subject: int, detail: int) -> None:
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

    # -- reaping --------------------------------------------------------------------------------

    def reap(self) -> None:
        """Reports every change of state. A group is killed before its leader is reaped and its number reused."""
        anything = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG | os.WNOWAIT
        while (change := _wait_id(anything)) is not None:
            pid, ours = change.si_pid, change.si_pid in self.forked
            if change.si_code not in DEATHS:
                with suppress(ChildProcessError):  # killed in between: only its death is left to report
                    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
                if ours:
                    stopped = change.si_code == os.CLD_STOPPED
                    self.report("stopped" if stopped else "continued", pid, change.si_status)
                continue
            if ours and not self.orphans_seconds:
                _kill(os.killpg, pid)
            _, status = os.waitpid(pid, 0)
            if ours:
                self.forked.discard(pid)
                self.deaths.append(("died", pid, status))
                self.orphans_end = Deadline(self.orphans_seconds)
        if self.deaths and not self.has_orphans():
            for death in self.deaths:
                self.report(*death)
            self.deaths.clear()

    def has_orphans(self) -> bool:
        """Whether there are descendants of dead children; they are killed, when their time is over. Their SIGCHLD calls
        `reap` again.
        """
        orphans = children_of(self.pid) - self.forked - self.children_before
        for pid in orphans if self.orphans_end.over else ():
            _kill(os.kill, pid)
        return bool(orphans)

    def end(self) -> NoReturn:
        """Kills all descendants and exits."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, KILL_ALL_SECONDS)
        for pid in self.forked:
            _kill(os.killpg, pid)
            _kill(os.kill, pid)
        while True:
            for pid in children_of(self.pid):
                _kill(os.kill, pid)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                os._exit(0)

    # -- the child ------------------------------------------------------------------------------

    def run_child(self, requests: socket.socket) -> NoReturn:
        """All that a child executes. It must never return into the server's stack."""
        status = EXIT_RAISED
        try:
            os.setsid()
            die_with(self.pid)
            adopt_orphans()  # while it lives, it is the parent of its daemons
            self._release_server_state()
            gc.enable()
            status = _call_entry(requests, self.repeated)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except MemoryError:
            status = EXIT_OUT_OF_MEMORY
        except BaseException:  # border of the process: the caller reads the traceback in the output
            traceback.print_exc()
        finally:
            os._exit(status & 0xFF)

    def _release_server_state(self) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            process_wide_state.in_c.signal(number, process_wide_state.in_c.SIG_DFL)
        os.close(self.wakeup)
        os.close(self.wakeup_end)
        self.control.close()
        for _, end in self.preforked:
            end.close()
        for descriptor in self.passing:
            os.close(descriptor)


def _call_entry(requests: socket.socket, repeated: Mapping[bytes, Call]) -> int:
    """Waits for its message, then calls the entry."""
    with requests:
        message, descriptors = _receive(requests)
    if not message:
        return 0
    _, data_bytes = pickle.loads(message)
    channel, output, *others = descriptors
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, data_bytes)
    inside = Inside(socket.socket(fileno=channel), others)
    first = inside.receive()
    if first is None:
        return 0
    function, arguments = repeated.get(first) or _unpickled(first)
    function(inside, *arguments)
    return 0


def _unpickled(call: bytes) -> Call:
    entry, arguments = pickle.loads(call)
    return resolve(entry), arguments


def _receive(end: socket.socket) -> tuple[bytes, list[int]]:
    message, descriptors, _, _ = socket.recv_fds(end, CONTROL_BYTES_MOST, DESCRIPTORS_MOST)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # recv_fds ignores MSG_CMSG_CLOEXEC
    return message, descriptors


def _ignore(number: int, _: object) -> None:
    """A handler: Python writes to the wakeup descriptor only for signals that have one."""


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
        if error.errno not in (errno.ESRCH, errno.EPERM):  # dead; or a group of dead processes only
            raise


def children_of(pid: int) -> set[int]:
    try:
        descriptor = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)  # 5 us; a Path takes 25
        try:
            return set(map(int, os.read(descriptor, CHILDREN_BYTES_MOST).split()))
        finally:
            os.close(descriptor)
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return {child for child, parent in parents_of_all().items() if parent == pid}
