"""How is an outward call named in a schedule? `syscall(rename out/part-*)`: the call, and what it changes.

A path is relative to the watched folder. A part of it that a run may draw anew (a number, random letters) is written
`*`, so that the same call has the same name in each run; calls of one name are told apart by their occurrence.
"""

from __future__ import annotations

import os
import re
import struct
from contextlib import suppress
from typing import Final, NamedTuple

from sinkproof.chaos.points import system_call_point
from sinkproof.chaos.system_calls.outward_calls import CALLS, CREATES

AT_FDCWD: Final = -100
PATH_BYTES_MOST: Final = 4096
SOCKET: Final = "socket"
DELETED: Final = " (deleted)"
NO_FILES: Final = ("/proc/", "/sys/", "/dev/null", "/dev/tty", "/dev/pts/", "/memfd:")
PART: Final = re.compile(r"tmp[a-z0-9_]{8}(?![0-9A-Za-z_])|[0-9A-Za-z]+")  # the former: of Python's tempfile
DRAWN: Final = re.compile(r"\d|[a-z][A-Z]|[A-Z]{2}[a-z]|tmp[a-z_]{8}")
MAY_WRITE: Final = os.O_WRONLY | os.O_RDWR


class OutwardChange(NamedTuple):
    """What a call changes. `paths`: absolute, in the order of the call's table."""

    call: str
    about: str  # as in the point: a name below the watched folder, or a socket
    paths: tuple[str, ...] = ()

    @property
    def point(self) -> str:
        return system_call_point(self.call, self.about)


def canonical_name(path: str) -> str:
    """`part-0-7f3a.json` is `part-*-*.json`."""
    return PART.sub(lambda match: "*" if DRAWN.search(match[0]) else match[0], path)


class Tracee:
    """The thread that makes a call, as /proc shows it. Raises OSError where it is gone, or may not be looked at."""

    def __init__(self, thread: int) -> None:
        self.thread = thread

    def read(self, address: int, size: int) -> bytes:
        with open(f"/proc/{self.thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def text(self, address: int) -> str:
        """Up to its zero byte; the page after that need not exist."""
        found = b""
        while len(found) < PATH_BYTES_MOST and b"\0" not in found:
            at = address + len(found)
            found += self.read(at, PATH_BYTES_MOST - at % PATH_BYTES_MOST)
        return os.fsdecode(found.split(b"\0")[0])

    def link(self, descriptor: int) -> str:
        return f"/proc/{self.thread}/fd/{descriptor}"

    def opened(self, descriptor: int) -> str:
        return os.readlink(self.link(descriptor))

    def path(self, folder: int | None, address: int) -> str:
        """Absolute. `folder`: the descriptor that a relative path starts from; None: the working folder."""
        text = self.text(address)
        if text.startswith("/"):
            return os.path.normpath(text)
        base = f"/proc/{self.thread}/cwd" if folder in (None, AT_FDCWD) else f"/proc/{self.thread}/fd/{folder}"
        return os.path.normpath(os.path.join(os.readlink(base), text))

    def flags(self, descriptor: int) -> int:
        """With which it was opened."""
        with open(f"/proc/{self.thread}/fdinfo/{descriptor}") as information:
            flags = next(line.split()[1] for line in information if line.startswith("flags:"))
        return int(flags, 8)

    def may_write(self, descriptor: int) -> bool:
        return bool(self.flags(descriptor) & MAY_WRITE)


class PlaceNames:
    """Names calls that change something below `folder`, or send to a socket other than `own_socket`."""

    def __init__(self, folder: str, *, own_socket: str = "") -> None:
        self.folder, self.own_socket = os.path.realpath(folder), own_socket
        self.elsewhere: dict[str, None] = {}  # names of files and folders outside of it that were changed

    def change(self, tracee: Tracee, name: str, arguments: tuple[int, ...]) -> OutwardChange | None:
        """None: it changes nothing that an independent reader of the folder, or a server, could see."""
        call = CALLS[name]
        if name == "sync":
            return OutwardChange(name, self.below(self.folder), (self.folder,))
        if call.descriptor is not None:
            return self._to_file(tracee, name, _signed(arguments[call.descriptor]))
        if name == "openat2" and not struct.unpack("Q", tracee.read(arguments[2], 8))[0] & CREATES:
            return None
        paths = tuple(
            self._resolved(tracee.path(None if folder is None else _signed(arguments[folder]), arguments[path]))
            for folder, path in call.paths
        )
        return self._below_or_elsewhere(name, paths)

    def _to_file(self, tracee: Tracee, name: str, descriptor: int) -> OutwardChange | None:
        try:
            path = tracee.opened(descriptor)
        except FileNotFoundError:  # no such descriptor: the call fails
            return None
        if path.startswith("socket:"):
            return OutwardChange(name, SOCKET) if path != self.own_socket else None
        return self._below_or_elsewhere(name, (path.removesuffix(DELETED),)) if path.startswith("/") else None

    def _below_or_elsewhere(self, name: str, paths: tuple[str, ...]) -> OutwardChange | None:
        inside = next(filter(None, map(self.below, paths)), "")
        if not inside and not paths[0].startswith(NO_FILES):
            self.elsewhere[canonical_name(paths[0])] = None
        return OutwardChange(name, inside, paths) if inside else None

    def _resolved(self, path: str) -> str:
        """Its folder may be reached by a link."""
        if self.below(path):
            return path
        folder, last = os.path.split(path)
        return os.path.join(os.path.realpath(folder), last)

    def below(self, path: str) -> str:
        """The name below the folder; empty if it lies elsewhere."""
        if path == self.folder:
            return "."
        return canonical_name(path[len(self.folder) + 1 :]) if path.startswith(f"{self.folder}/") else ""

    def mapped(self, tracee: Tracee, descriptor: int) -> str:
        """The path of the file, if it is mapped so that what is written to memory changes it; else empty."""
        with suppress(FileNotFoundError):
            path = tracee.opened(_signed(descriptor)).removesuffix(DELETED)
            return path if self.below(path) and tracee.may_write(_signed(descriptor)) else ""
        return ""


def _signed(argument: int) -> int:
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
