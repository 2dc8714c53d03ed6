"""A kept service as its users see it, in any process: an entry that tells where it is, and requests to its keeper.

The entry is a file that the keeper holds a lock on for life. So whether a service runs is asked of the kernel, and no
number of a process that may have been reused since is ever trusted, nor signalled.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.cache_folders import data_home, made, running_folder
from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.chaos.services.service_daemon import DEATH_SECONDS, MESSAGE_BYTES_MOST

ANSWER_SECONDS: Final = 20.0  # a new keeper imports first: 0.1 s on an idle machine
LOOK_AGAIN_SECONDS: Final = 0.02  # at what the kernel tells nobody by itself
SOCKET: Final = "keeper.socket"
PREFIX: Final = "sinkproof"  # of a folder, followed by the kind, never by a number: those are scratch folders
OUTPUT_BYTES_SHOWN: Final = 8000
LINES_SHOWN: Final = 12
CONTAINED: Final = "contained"  # in the details of an entry: its nodes are in containers


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is written down of a service while it runs. `owner`: the process that it ends with; 0: none."""

    kind: str
    folder: str
    owner: int
    details: dict[str, Any]

    @property
    def path(self) -> Path:
        return running_folder() / f"{Path(self.folder).name}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one process. `status` as subprocess has it; `ordered`: somebody told it to end."""

    pid: int
    status: int | None
    stopped: bool
    ordered: bool


class Kept:
    """The nodes of one service, each a process with a name."""

    def __init__(self, entry: Entry) -> None:
        self.entry, self.folder = entry, Path(entry.folder)
        self.keeper: subprocess.Popen[bytes] | None = None  # where we started it and it ends with us

    def spawn(self, name: str, command: Sequence[str], *, image: str = "") -> None:
        """`image`: of the container that it runs in; "": it is a process of this machine."""
        answer = self._ask({"do": "spawn", "name": name, "command": list(command), "image": image})
        if "refused" in answer:
            raise ServiceFailed(
                f"{name} of {self.entry.kind} cannot be started",
                evidence=str(answer["refused"]),
                next_step="`sinkproof doctor` says what is missing",
            )

    def fates(self) -> dict[str, Fate]:
        return {name: Fate(**fate) for name, fate in self._ask({"do": "look"})["nodes"].items()}

    def fate(self, name: str) -> Fate | None:
        return self.fates().get(name)

    def lives(self, name: str) -> bool:
        fate = self.fate(name)
        return fate is not None and fate.status is None

    def signal(self, name: str, number: signal.Signals) -> None:
        """A no-op for what is dead: its keeper has not forgotten whose number it was."""
        self._ask({"do": "signal", "name": name, "number": int(number)})

    def await_end(self, name: str, deadline: Deadline) -> bool:
        """Whether it has ended by then."""
        while (fate := self.fate(name)) is not None and fate.status is None and not deadline.over:
            pause(fate.pid, min(deadline.left, 1.0))
        return fate is None or fate.status is not None

    def await_stopped(self, name: str, wanted: bool, deadline: Deadline) -> bool:
        """Whether SIGSTOP, or SIGCONT, has come through to every thread of it by then."""
        while (fate := self.fate(name)) is not None and fate.status is None and not deadline.over:
            if fate.stopped is wanted:
                return True
            pause(fate.pid, LOOK_AGAIN_SECONDS)
        return False

    def said(self, name: str) -> str:
        """The end of what it printed."""
        return tail(self.folder / f"{name}.out")

    def end(self) -> None:
        """Kills every node and removes what they wrote. May be called again."""
        try:
            self._ask({"do": "end"}, seconds=2 * DEATH_SECONDS)
        except ServiceFailed:
            sweep_the_dead()  # the keeper was gone already
        if self.keeper is not None:
            self.keeper.wait()

    def _ask(self, request: dict[str, Any], *, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
            caller.settimeout(seconds)
            try:
                _at(self.folder, caller.connect)
                caller.send(json.dumps(request).encode())
                answer = caller.recv(MESSAGE_BYTES_MOST)
            except OSError as error:
                raise self._gone(str(error)) from error
        if not answer:
            raise self._gone("it has hung up")
        found: dict[str, Any] = json.loads(answer)
        return found

    def _gone(self, evidence: str) -> ServiceFailed:
        said = tail(self.folder / "keeper.out")
        return ServiceFailed(
            f"the keeper of {self.entry.kind} in {self.folder} does not answer",
            evidence=said or evidence,
            next_step="Somebody has ended it, or removed its folder: start the service again",
        )


def keep(kind: str, details: dict[str, Any], *, owner: int) -> Kept:
    """A new service without nodes: its folder, its entry, its keeper. `owner`: the pid that it ends with; 0: of nobody.

    The owner is alive: it is this process, or one that waits for it.
    """
    sweep_the_dead()
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}-{kind}-", dir=made(data_home()))
    kept = Kept(Entry(kind=kind, folder=folder, owner=owner, details=details))
    lock = _locked_entry(kept.entry)
    held = [lock]
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        held.append(listener.detach())
        with socket.socket(fileno=os.dup(held[1])) as bound:
            _at(kept.folder, bound.bind)
            bound.listen(64)
        if owner:
            held.append(os.pidfd_open(owner))
        _start_keeper(kept, (held[1], lock, held[2] if owner else -1))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        kept.entry.path.unlink(missing_ok=True)
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)
    return kept


def _locked_entry(entry: Entry) -> int:
    """Locked before anybody can see it."""
    made(running_folder())
    descriptor, name = tempfile.mkstemp(prefix=".", dir=running_folder())
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps(asdict(entry)).encode())
    os.rename(name, entry.path)
    return descriptor


def _start_keeper(kept: Kept, descriptors: tuple[int, int, int]) -> None:
    folder, entry = str(kept.folder), str(kept.entry.path)
    program = f"from sinkproof.chaos.services.service_daemon import main; main({folder!r}, {entry!r}, {descriptors!r})"
    with (kept.folder / "keeper.out").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[descriptor for descriptor in descriptors if descriptor >= 0],
            start_new_session=True,
        )
    if kept.entry.owner == os.getpid():
        kept.keeper = process
    else:
        process.returncode = 0  # it outlives us: nobody here waits for it, and nobody warns of that


def running(*kinds: str) -> list[Entry]:
    """Every service of these kinds, or of any, that runs, oldest first."""
    sweep_the_dead()
    found = [entry for path in _entries() if (entry := _read(path)) is not None]
    return [entry for entry in found if not kinds or entry.kind in kinds]


def sweep_the_dead() -> list[str]:
    """Removes the folders and entries of services whose keeper was killed; returns the folders."""
    removed = []
    for path in _entries():
        entry = _read(path)
        if entry is None or _is_kept(path):
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
    """None: it is gone since it was listed, or not one of ours."""
    try:
        return Entry(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _is_kept(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True  # ended in an orderly way, just now
    except BlockingIOError:
        return True
    return False


def _at(folder: Path, call: Any) -> None:
    """Binds or connects to the socket in the folder, however long its path is: an address holds 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        call(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)


def pause(pid: int, seconds: float) -> None:
    """Until the process is dead, or the time is over."""
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
    """The end of a log. The frames of a Java stack would hide the line that says what happened."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - OUTPUT_BYTES_SHOWN))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    told = [line for line in text.strip().splitlines() if not line.startswith("\tat ")]
    return "\n".join(told[-LINES_SHOWN:])
