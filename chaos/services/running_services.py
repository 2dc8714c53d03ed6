"""Finds, starts and controls services from any process: the entry of a service, and requests to its daemon.

The entry is a file that the daemon keeps locked while it lives. The kernel therefore decides whether a service runs,
and no pid, which may have been reused, is ever trusted or signalled.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cache_folders import data_home, made, running_folder
from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.chaos.services.service_daemon import DEATH_SECONDS, MESSAGE_BYTES_MOST
from sinkproof.chaos.system_calls.seccomp_filter import reason
from sinkproof.chaos.system_calls.watched_program import NotWatched

ANSWER_SECONDS: Final = 20.0  # a new daemon imports first: 0.1 s on an idle machine
POLL_SECONDS: Final = 0.02  # between two checks of a state that the kernel sends no event for
SOCKET: Final = "daemon.socket"
PREFIX: Final = "sinkproof"  # of a folder, followed by the kind; a number would follow in the name of a scratch folder
OUTPUT_BYTES_SHOWN: Final = 8000
LINES_SHOWN: Final = 12
CONTAINED: Final = "contained"  # in the details of an entry: its nodes are in containers


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The record of a running service. `owner`: the pid that it ends with; 0: none."""

    kind: str
    folder: str
    owner: int
    details: dict[str, Any]

    @property
    def path(self) -> Path:
        return running_folder() / f"{Path(self.folder).name}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The state of one process. `exit_status`: as Popen.returncode; `end_requested`: by SIGTERM or SIGKILL."""

    pid: int
    exit_status: int | None
    stopped: bool
    end_requested: bool


class ServiceHandle:
    """The nodes of one service, each a process with a name."""

    def __init__(self, entry: Entry) -> None:
        self.entry, self.folder = entry, Path(entry.folder)
        self.daemon: subprocess.Popen[bytes] | None = None  # if this process started it and owns the service

    def spawn(self, name: str, command: Sequence[str], *, image: str = "") -> None:
        """`image`: of the container that it runs in; "": it is a process of this machine."""
        self._spawn({"name": name, "command": list(command), "image": image})

    def spawn_watched(self, name: str, command: Sequence[str]) -> int:
        """As `spawn`, with system calls that wait for an answer. Returns the listener, which is the caller's.
        Raises NotWatched if this machine does not offer that.
        """
        answer, descriptors = self._spawn({"name": name, "command": list(command), "watched": True})
        if not descriptors:
            raise NotWatched(reason(answer["unwatched"]))
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]

    def _spawn(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        answer, descriptors = self._exchange({"do": "spawn", **request})
        if "refused" in answer:
            raise ServiceFailed(
                f"{request['name']} of {self.entry.kind} cannot be started",
                evidence=str(answer["refused"]),
                next_step="`sinkproof doctor` lists what is missing",
            )
        return answer, descriptors

    def statuses(self) -> dict[str, NodeStatus]:
        return {name: NodeStatus(**status) for name, status in self._request({"do": "status"})["nodes"].items()}

    def status_of(self, name: str) -> NodeStatus | None:
        return self.statuses().get(name)

    def lives(self, name: str) -> bool:
        status = self.status_of(name)
        return status is not None and status.exit_status is None

    def signal(self, name: str, number: signal.Signals) -> None:
        """A no-op for a dead process: the daemon signals its own child, never a reused pid."""
        self._request({"do": "signal", "name": name, "number": int(number)})

    def await_end(self, name: str, deadline: Deadline) -> bool:
        """Whether it has ended by the deadline."""
        while (status := self.status_of(name)) is not None and status.exit_status is None and not deadline.over:
            await_exit(status.pid, min(deadline.left, 1.0))
        return status is None or status.exit_status is not None

    def await_stopped(self, name: str, wanted: bool, deadline: Deadline) -> bool:
        """Whether SIGSTOP, or SIGCONT, has taken effect in all its threads by the deadline."""
        while (status := self.status_of(name)) is not None and status.exit_status is None and not deadline.over:
            if status.stopped is wanted:
                return True
            await_exit(status.pid, POLL_SECONDS)
        return False

    def last_output(self, name: str) -> str:
        """The end of its output."""
        return tail(self.folder / f"{name}.out")

    def disown(self) -> None:
        """From now on it runs until it is stopped, and does not end with this process."""
        self._request({"do": "disown"})
        self.entry = replace(self.entry, owner=0)
        if self.daemon is not None:
            self.daemon.returncode, self.daemon = 0, None  # this suppresses the ResourceWarning of Popen

    def end(self) -> None:
        """Kills every node and removes what they wrote. May be called again."""
        try:
            self._request({"do": "end"}, seconds=2 * DEATH_SECONDS)
        except ServiceFailed:
            sweep_dead_services()  # the daemon was dead already
        if self.daemon is not None:
            self.daemon.wait()

    def _request(self, request: dict[str, Any], *, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        return self._exchange(request, seconds=seconds)[0]

    def _exchange(
        self, request: dict[str, Any], *, seconds: float = ANSWER_SECONDS
    ) -> tuple[dict[str, Any], list[int]]:
        """The answer, and the descriptors that came with it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
            caller.settimeout(seconds)
            try:
                _call_with_address(self.folder, caller.connect)
                caller.send(json.dumps(request).encode())
                answer, descriptors, _, _ = socket.recv_fds(caller, MESSAGE_BYTES_MOST, 1)
            except OSError as error:
                raise self._no_reply(str(error)) from error
        if not answer:
            raise self._no_reply("it has closed the connection")
        found: dict[str, Any] = json.loads(answer)
        return found, descriptors

    def _no_reply(self, evidence: str) -> ServiceFailed:
        output = tail(self.folder / "daemon.out")
        return ServiceFailed(
            f"the daemon of {self.entry.kind} in {self.folder} does not reply",
            evidence=output or evidence,
            next_step="It was killed, or its folder was removed: start the service again",
        )


def new_service(kind: str, details: dict[str, Any], *, owner: int) -> ServiceHandle:
    """A new service without nodes: its folder, its entry, its daemon. `owner`: the pid that it ends with; 0: none.

    The owner is alive: it is this process, or one that waits for it.
    """
    sweep_dead_services()
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}-{kind}-", dir=made(data_home()))
    handle = ServiceHandle(Entry(kind=kind, folder=folder, owner=owner, details=details))
    lock = _locked_entry(handle.entry)
    held = [lock]
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        held.append(listener.detach())
        with socket.socket(fileno=os.dup(held[1])) as bound:
            _call_with_address(handle.folder, bound.bind)
            bound.listen(64)
        if owner:
            held.append(os.pidfd_open(owner))
        _start_daemon(handle, (held[1], lock, held[2] if owner else -1))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        handle.entry.path.unlink(missing_ok=True)
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)
    return handle


def _locked_entry(entry: Entry) -> int:
    """The descriptor of the entry file, which is locked before it has its name."""
    made(running_folder())
    descriptor, name = tempfile.mkstemp(prefix=".", dir=running_folder())
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps(asdict(entry)).encode())
    os.rename(name, entry.path)
    return descriptor


def _start_daemon(handle: ServiceHandle, descriptors: tuple[int, int, int]) -> None:
    folder, entry = str(handle.folder), str(handle.entry.path)
    program = f"from sinkproof.chaos.services.service_daemon import main; main({folder!r}, {entry!r}, {descriptors!r})"
    with (handle.folder / "daemon.out").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[descriptor for descriptor in descriptors if descriptor >= 0],
            start_new_session=True,
        )
    if handle.entry.owner == os.getpid():
        handle.daemon = process
    else:
        process.returncode = 0  # it outlives this process; this suppresses the ResourceWarning of Popen


def running(*kinds: str) -> list[Entry]:
    """Every running service of these kinds (none given: of all kinds), oldest first."""
    sweep_dead_services()
    found = [entry for path in _entries() if (entry := _read(path)) is not None]
    return [entry for entry in found if not kinds or entry.kind in kinds]


def sweep_dead_services() -> list[str]:
    """Removes the folders and entries that killed daemons have left; returns the folders."""
    removed = []
    for path in _entries():
        entry = _read(path)
        if entry is None or _has_daemon(path):
            continue
        if entry.details.get(CONTAINED):
            from sinkproof.chaos.services.container_nodes import sweep

            sweep(entry.folder)
        if Path(entry.folder).name.startswith(f"{PREFIX}-{entry.kind}-"):
            shutil.rmtree(entry.folder, ignore_errors=True)
            removed.append(entry.folder)
        path.unlink(missing_ok=True)
    return removed


def _entries() -> list[Path]:
    folder = running_folder()
    return sorted(folder.glob("*.json"), key=_age) if folder.is_dir() else []


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(path: Path) -> Entry | None:
    """None: it was removed since it was listed, or it is no entry."""
    try:
        return Entry(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _has_daemon(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True  # its daemon has just removed it
    except BlockingIOError:
        return True
    return False


def _call_with_address(folder: Path, call: Any) -> None:
    """Binds or connects to the socket in the folder. A path of any length works: an address itself holds 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        call(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)


def await_exit(pid: int, seconds: float) -> None:
    """Waits until the process is dead, or the time is over."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(int(seconds * 1000) + 1)
    finally:
        os.close(descriptor)


def tail(path: Path) -> str:
    """The end of a log, without the frames of Java stacks: they would hide the line with the error."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - OUTPUT_BYTES_SHOWN))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.strip().splitlines() if not line.startswith("\tat ")]
    return "\n".join(lines[-LINES_SHOWN:])
