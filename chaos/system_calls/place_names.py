"""How is an outward call named in a schedule? `syscall(rename out/part-*)`: the call, and what it changes.

A path is relative to the watched folder. A part of it that a run may draw anew (a number, random letters) is written
`*`, so that the same call has the same name in each run; calls of one name are told apart by their occurrence.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from sinkproof.chaos.points import is_system_call, system_call_point
from sinkproof.chaos.system_calls.outward_calls import CALLS, CREATES, FOLLOWING, MAKING, OPENING

AT_FDCWD: Final = -100
PATH_BYTES_MOST: Final = 4096
ADDRESS_BYTES_MOST: Final = 128
SOCKET: Final = "socket"
DELETED: Final = " (deleted)"
NO_FILES: Final = ("/proc/", "/sys/", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts/", "/memfd:")
COUNTERS_OF_A_JVM: Final = "/tmp/hsperfdata_"  # a file of each process, which no program reads back
COMPILED: Final = "/__pycache__"  # of Python, made of a source that stays
DESCRIPTOR: Final = re.compile(r"/(?:proc/(?P<process>self|thread-self|\d+)(?:/task/\d+)?|dev)/fd/(?P<number>\d+)")
STREAMS: Final = {f"/dev/{name}": number for number, name in enumerate(("stdin", "stdout", "stderr"))}
UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # one part in fifty has letters only
PART: Final = re.compile(r"tmp[a-z0-9_]{8}(?![0-9A-Za-z_])|[0-9A-Za-z]+")  # the former: of Python's tempfile
DRAWN: Final = re.compile(r"\d|[a-z][A-Z]|[A-Z]{2}[a-z]|tmp[a-z_]{8}")
NEVER_THE_SAME: Final = re.compile(  # of Python's tempfile, a UUID, or 128 bits
    rf"(?<![0-9A-Za-z])(?:tmp(?!_[a-z]{{7}})[a-z0-9_]{{8}}|{UUID.pattern}|[0-9a-f]{{32}})(?![0-9A-Za-z_])"
    r"|^[a-z0-9_]{8}$"  # with such a file tempfile tries whether it may write there
)
LISTENING: Final = "0A"  # a state in the kernel's table of TCP sockets
MAY_WRITE: Final = os.O_WRONLY | os.O_RDWR


class OutwardChange(NamedTuple):
    """What a call changes. `paths`: absolute, in the order of the call's table."""

    call: str
    about: str  # as in the point: a name below the watched folder, or a socket
    paths: tuple[str, ...] = ()
    is_below: bool = True  # the watched folder, or a socket

    @property
    def point(self) -> str:
        return system_call_point(self.call, self.about)


@lru_cache(maxsize=4096)
def canonical_name(path: str) -> str:
    """`part-0-7f3a.json` is `part-*-*.json`."""
    return PART.sub(lambda match: "*" if DRAWN.search(match[0]) else match[0], UUID.sub("*-*-*-*-*", path))


class Tracee:
    """The thread that makes a call, as /proc shows it. Raises OSError where it is gone, or may not be looked at."""

    def __init__(self, thread: int) -> None:
        self.thread = thread

    def read(self, address: int, size: int) -> bytes:
        with open(f"/proc/{self.thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def write(self, address: int, data: bytes) -> None:
        with open(f"/proc/{self.thread}/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(data)

    @property
    def program(self) -> str:
        """The name of its file."""
        return os.path.basename(os.readlink(f"/proc/{self.thread}/exe"))

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
    """Names calls that change something below `folder`, or send to a socket other than `own_socket`. `elsewhere`: those
    that change anything outside of it have names, too, their whole paths; each path is kept here, and whether it was
    found as others have left it. Temporary files have no names: until one is found so, no other attempt can tell
    whether it is there. None: all these calls are left out. `to_servers`: sockets count only if the program has
    connected them to an address that it has not bound itself.
    """

    def __init__(
        self, folder: str, *, own_socket: str = "", elsewhere: dict[str, bool] | None = None, to_servers: bool = False
    ) -> None:
        self.folder, self.own_socket, self.elsewhere = os.path.realpath(folder), own_socket, elsewhere
        self.to_servers: set[str] | None = set() if to_servers else None  # such sockets, as the kernel names them
        self._own_servers: set[str] = set()  # sockets that it has bound, and their paths
        self.peers: dict[str, None] = {}  # addresses to which it has connected
        self.bound: dict[str, None] = {}  # addresses outside of the folder that it has bound
        self._met: set[str] = set()  # paths elsewhere
        self._of_files: dict[tuple[str, str], OutwardChange] = {}  # (call, path of an open file): most calls are alike

    def change(self, tracee: Tracee, name: str, arguments: tuple[int, ...]) -> OutwardChange | None:
        """None: it changes nothing that an independent reader of the folder, or a server, could see."""
        call = CALLS[name]
        if name == "sync":
            return OutwardChange(name, self.below(self.folder), (self.folder,))
        if call.descriptor is not None:
            return self._to_file(tracee, name, _signed(arguments[call.descriptor]))
        flags = _flags(tracee, name, arguments)
        if name == "openat2" and not flags & CREATES:
            return None
        follows = name in FOLLOWING and not flags & os.O_NOFOLLOW
        paths = tuple(
            self._resolved(tracee, None if at is None else _signed(arguments[at]), arguments[path], follows=follows)
            for at, path in call.paths
        )
        may_exist = name not in MAKING and (name not in OPENING or flags & os.O_TRUNC)
        return self._below_or_elsewhere(name, paths, may_exist=bool(may_exist))

    def _to_file(self, tracee: Tracee, name: str, descriptor: int) -> OutwardChange | None:
        try:
            path = tracee.opened(descriptor)
        except FileNotFoundError:  # no such descriptor: the call fails
            return None
        found = self._of_files.get((name, path))
        if found is None:
            if path.startswith("socket:"):
                counts = path != self.own_socket if self.to_servers is None else path in self.to_servers
                return OutwardChange(name, SOCKET) if counts else None
            found = self._below_or_elsewhere(name, (path.removesuffix(DELETED),))
            if found is not None:
                self._of_files[name, path] = found
        return found

    def _below_or_elsewhere(self, name: str, paths: tuple[str, ...], *, may_exist: bool = True) -> OutwardChange | None:
        """`may_exist`: if there is such a file, the call changes something all the same."""
        inside = next(filter(None, map(self.below, paths)), "")
        if inside:
            return OutwardChange(name, inside, paths)
        if self.elsewhere is None or is_harmless(paths[0]):
            return None
        is_temporary = all(map(is_temporary_file, paths))
        if not may_exist and not is_temporary and os.path.lexists(paths[0]):
            return None
        for path in paths:
            self._note(path)
        return None if is_temporary else OutwardChange(name, canonical_name(paths[0]), paths, is_below=False)

    def _note(self, path: str) -> None:
        """That it was met here, for the first time. Other attempts of this run strike, and are struck, where they meet
        it; unless it is a temporary file, which must not be met by two.
        """
        assert self.elsewhere is not None
        if path not in self._met:
            self._met.add(path)
            known = self.elsewhere.get(path)
            is_found = os.path.lexists(path) if known is None else known or is_temporary_file(path)
            self.elsewhere[path] = is_found

    def _resolved(self, tracee: Tracee, folder: int | None, address: int, *, follows: bool) -> str:
        """Absolute. Its folder may be reached by a link; a name of an open file is that of the file."""
        path = tracee.path(folder, address)
        if opened := DESCRIPTOR.fullmatch(path):
            process = opened["process"] or "self"
            process = process if process.isdigit() else str(tracee.thread)
            return os.readlink(f"/proc/{process}/fd/{opened['number']}").removesuffix(DELETED)
        if path in STREAMS:
            return tracee.opened(STREAMS[path]).removesuffix(DELETED)
        if self.below(path):
            return path
        parent, last = os.path.split(path)
        whole = os.path.join(os.path.realpath(parent), last)
        return os.path.realpath(whole) if follows and os.path.islink(whole) else whole

    def below(self, path: str) -> str:
        """The name below the folder; empty if it lies elsewhere."""
        if path == self.folder:
            return "."
        return canonical_name(path[len(self.folder) + 1 :]) if path.startswith(f"{self.folder}/") else ""

    def mapped(self, tracee: Tracee, descriptor: int) -> str:
        """The path of the file, if it is mapped so that what is written to memory changes it; else empty."""
        with suppress(FileNotFoundError):
            path = tracee.opened(_signed(descriptor)).removesuffix(DELETED)
            counts = self.below(path) or (self.elsewhere is not None and not is_harmless(path))
            return path if counts and tracee.may_write(_signed(descriptor)) else ""
        return ""

    def note_peer(self, tracee: Tracee, arguments: Sequence[int]) -> None:
        """The program is about to connect a socket to it. `arguments`: of connect(2), as those of bind(2) below."""
        descriptor, address, size = arguments[:3]
        given = _address(tracee, address, size)
        path = _path_from(tracee, given)
        if peer := (path if os.path.exists(path) else "") or peer_name(given):
            self.peers[peer] = None
            if self.to_servers is not None and not self._is_own_server(tracee, peer):
                self.to_servers.add(tracee.opened(_signed(descriptor)))

    def _is_own_server(self, tracee: Tracee, peer: str) -> bool:
        if peer.startswith(("/", "@")):
            return peer in self._own_servers
        port = int(peer.rpartition(":")[2])
        return any(listener in self._own_servers for listener in _listeners(tracee, port))

    def note_bound(self, tracee: Tracee, arguments: Sequence[int]) -> None:
        """The program is about to bind a socket to it. A port that the kernel chooses is no other program's."""
        descriptor, address, size = arguments[:3]
        self._own_servers.add(tracee.opened(_signed(descriptor)))
        given = _address(tracee, address, size)
        name = unix_path(given) if unix_path(given).startswith("@") else _path_from(tracee, given) or peer_name(given)
        self._own_servers.add(name)
        if name and not self.below(name):
            self.bound[name] = None


def _address(tracee: Tracee, address: int, size: int) -> bytes:
    return tracee.read(address, min(size & 0xFFFFFFFF, ADDRESS_BYTES_MOST))


def _path_from(tracee: Tracee, address: bytes) -> str:
    """Of a socket in a folder, seen from the caller's; empty: it is in none."""
    path = unix_path(address)
    if not path or path.startswith("@"):
        return ""
    return os.path.normpath(os.path.join(os.readlink(f"/proc/{tracee.thread}/cwd"), path))


def _listeners(tracee: Tracee, port: int) -> Iterator[str]:
    """The sockets that listen at this port, as the kernel names them (proc_pid_net(5))."""
    for line in _lines_of(f"/proc/{tracee.thread}/net/tcp", f"/proc/{tracee.thread}/net/tcp6"):
        _, local, _, state, *rest = line.split()[:10]
        if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
            yield f"socket:[{rest[-1]}]"


def _lines_of(*tables: str) -> Iterator[str]:
    for table in tables:
        with suppress(FileNotFoundError), open(table) as lines:  # a kernel without IPv6 has one of them
            yield from lines


def is_harmless(path: str) -> bool:
    """What is written there is read back by no later attempt, and by no reader."""
    return not path.startswith("/") or path.startswith((*NO_FILES, COUNTERS_OF_A_JVM)) or COMPILED in path


def is_temporary_file(path: str) -> bool:
    """Its name is drawn anew each time, or else it is found by another attempt."""
    return path.startswith(f"{tempfile.gettempdir()}/")


def is_sent(point: str) -> bool:
    """Whether it is a system call by which something is sent, over any kind of socket."""
    return is_system_call(point) and SOCKET in point


def is_drawn(path: str) -> bool:
    """Whether it is a temporary file, with a random part in its name: no other run meets it."""
    folder = f"{tempfile.gettempdir()}/"
    return path.startswith(folder) and bool(NEVER_THE_SAME.search(path.removeprefix(folder)))


def kept(elsewhere: Mapping[str, bool]) -> list[str]:
    """Paths that were found as others have left them, or that a later run may find as this one has left them."""
    stays = {path for path in elsewhere if not is_temporary_file(path) and os.path.lexists(path)}
    return [path for path, was_found in elsewhere.items() if was_found or path in stays]


def peer_name(address: bytes) -> str:
    """Of an address as connect(2) takes it; empty where there is nothing to connect to."""
    family = int.from_bytes(address[:2], sys.byteorder)
    if family == socket.AF_UNIX:
        path = unix_path(address)
        return path if path.startswith("@") or os.path.exists(path) else ""
    port = int.from_bytes(address[2:4], "big")
    if family == socket.AF_INET and port:
        return f"{IPv4Address(address[4:8])}:{port}"
    if family == socket.AF_INET6 and port:
        return f"[{IPv6Address(address[8:24])}]:{port}"
    return ""


def unix_path(address: bytes) -> str:
    """Of a socket of this machine; `@name` if it is in no folder; empty: of another one, or the kernel chooses."""
    if int.from_bytes(address[:2], sys.byteorder) != socket.AF_UNIX:
        return ""
    return os.fsdecode(address[2:].split(b"\0")[0] or address[2:].rstrip(b"\0").replace(b"\0", b"@"))


def _flags(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """With which a call opens a file; of other calls: none."""
    match name:
        case "open":
            return arguments[1]
        case "openat":
            return arguments[2]
        case "openat2":
            return int(struct.unpack("Q", tracee.read(arguments[2], 8))[0])
    return 0


def _signed(argument: int) -> int:
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
