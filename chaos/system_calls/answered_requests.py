"""A request of HTTP is answered in the place of its service: what its program reads and writes is another socket then,
of which the other end has sent the reply already.

For programs in any language: the descriptor stays the same, and what waits for it by epoll(7) waits for the new one.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from sinkproof.chaos.system_calls.carried_out import HTTP_REQUEST, NETWORK, opened, process_of, sent_bytes
from sinkproof.chaos.system_calls.place_names import Tracee

ADD_DESCRIPTOR: Final = 0x40182103  # SECCOMP_IOCTL_NOTIF_ADDFD
ADDED: Final = struct.Struct("QIIII")  # struct seccomp_notif_addfd: id, flags, and the source, the target and its flags
REPLACES: Final = 1  # SECCOMP_ADDFD_FLAG_SETFD
EPOLL_ADD: Final = 1
EPOLL_EVENT: Final = struct.Struct("=IQ" if platform.machine() == "x86_64" else "=I4xQ")
WAITED_FOR: Final = re.compile(r"^tfd:\s*(\d+) events:\s*([0-9a-f]+) data:\s*([0-9a-f]+)", re.MULTILINE)
FLAGS: Final = re.compile(r"^flags:\s*([0-7]+)", re.MULTILINE)
BUFFER_BYTES: Final = 4 << 20  # a longer body than this would wait for ever
BODY: Final = b"unavailable\n"
UNAVAILABLE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(BODY), BODY)
)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Answers:
    """Of one watch. `listener`: of its filter. The other ends are kept open: else a program would fail as it goes on to
    send the body.
    """

    def __init__(self, listener: int) -> None:
        self.listener = listener
        self.other_ends: list[socket.socket] = []

    def refuse(self, tracee: Tracee, name: str, arguments: tuple[int, ...], *, identity: int) -> int:
        """How many bytes of it were sent, as the caller is told: none is. `identity`: of its call. Raises OSError where
        it is no request of HTTP over a network, or the kernel replaces no descriptors.
        """
        data, descriptor = sent_bytes(tracee, name, arguments), arguments[0]
        process = process_of(tracee)
        if not is_request(data):
            raise OSError(errno.EOPNOTSUPP, "this is no request of HTTP")
        its, other = _pair()
        with its:
            other.sendall(UNAVAILABLE)
            other.shutdown(socket.SHUT_WR)
            with opened(tracee, descriptor) as theirs, socket.socket(fileno=os.dup(theirs)) as connection:
                if connection.family not in NETWORK:
                    raise OSError(errno.EOPNOTSUPP, "it is sent over no network")
                fcntl.fcntl(its, fcntl.F_SETFL, fcntl.fcntl(theirs, fcntl.F_GETFL))
            waiting = _waiting(process, descriptor)
            order = ADDED.pack(identity, REPLACES, its.fileno(), descriptor, _flags(process, descriptor) & os.O_CLOEXEC)
            fcntl.ioctl(self.listener, ADD_DESCRIPTOR, order)
            for poller, events, data_of_poller in waiting:
                _wait_for(tracee, poller, its.fileno(), event=EPOLL_EVENT.pack(events, data_of_poller))
        self.other_ends.append(other)
        return len(data)

    def close(self) -> None:
        while self.other_ends:
            self.other_ends.pop().close()


def is_request(data: bytes) -> bool:
    return HTTP_REQUEST.match(data) is not None


def _pair() -> tuple[socket.socket, socket.socket]:
    """Of TCP, as clients set options that other sockets refuse."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        its = socket.create_connection(server.getsockname())
        return its, server.accept()[0]


def _waiting(process: int, descriptor: int) -> list[tuple[int, int, int]]:
    """Each epoll instance of this process that waits for it: (descriptor, events, data)."""
    found = []
    for about in Path(f"/proc/{process}/fdinfo").iterdir():
        with suppress(OSError):  # closed meanwhile
            registered = WAITED_FOR.findall(about.read_text())
            found += [(int(about.name), int(e, 16), int(d, 16)) for each, e, d in registered if int(each) == descriptor]
    return found


def _flags(process: int, descriptor: int) -> int:
    found = FLAGS.search(Path(f"/proc/{process}/fdinfo/{descriptor}").read_text())
    return int(found[1], 8) if found else 0


def _wait_for(tracee: Tracee, poller: int, descriptor: int, *, event: bytes) -> None:
    with suppress(OSError), opened(tracee, poller) as ours:
        _LIBC.epoll_ctl(ours, EPOLL_ADD, descriptor, ctypes.create_string_buffer(event, len(event)))
