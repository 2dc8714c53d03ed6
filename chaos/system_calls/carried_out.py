"""Carries out system calls in the place of their caller, in part or with another answer.

Files are the caller's own open ones (pidfd_getfd(2)). Each function raises OSError where the call cannot be carried out
from here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sinkproof.chaos.refused_statements import refused, timed_out
from sinkproof.chaos.system_calls.outward_calls import BY_PATH
from sinkproof.chaos.system_calls.place_names import AT_FDCWD, OutwardChange, Tracee

PIDFD_GETFD: Final = 438
PART: Final = struct.Struct("QQ")  # struct iovec: address, length
MESSAGE: Final = struct.Struct("QI4xQQQQ")  # struct msghdr: name and its length, parts and their number, control data
NUMBER: Final = struct.Struct("q")  # loff_t
LAST_SENT: Final = struct.Struct("44xI")  # in the kernel's tcp_info: tcpi_last_data_sent, in ms
OFFSET_MOST: Final = (1 << 63) - 1
GATHERING: Final = ("writev", "pwritev", "pwritev2")
PARTS_MOST: Final = 1024
# socket(7): a classic BPF program says how many bytes of a packet are kept; the kernel never cuts a header of TCP.
ATTACH_FILTER: Final = 26
FILTER: Final = struct.Struct("HBBI")  # struct sock_filter: code, jumps, constant
PROGRAM: Final = struct.Struct("H6xQ")  # struct sock_fprog: length, address
BPF_RETURN: Final = 0x06
HEADER, NOTHING = 1, 0
SEND_SECONDS: Final = 10.0
HTTP_REQUEST, HEAD_ENDS = re.compile(rb"[A-Z]+ \S+ HTTP/1"), b"\r\n\r\n"
NETWORK: Final = (socket.AF_INET, socket.AF_INET6)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def carried_out(change: OutwardChange, arguments: tuple[int, ...]) -> int:
    """The number of the error that it met; 0: it was carried out."""
    name, paths = change.call, change.paths
    try:
        if name == "renameat2" and (flags := arguments[4] & 0xFFFFFFFF):  # no replacement, or an exchange
            new, old = map(os.fsencode, paths)
            return ctypes.get_errno() if _LIBC.renameat2(AT_FDCWD, old, AT_FDCWD, new, ctypes.c_uint(flags)) else 0
        try:
            BY_PATH[name](*paths)
        except IsADirectoryError:  # `unlinkat` removes folders, too
            os.rmdir(*paths)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def half_written(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """How many bytes were written, to the same open file: half of them, but no whole lines, which would look right."""
    if name in ("sendfile", "copy_file_range"):
        return _half_copied(tracee, name, arguments)
    descriptor, address, size, offset = arguments[:4]
    if name in GATHERING:
        every = _parts(tracee, address, size)
        data = every[: _half(len(every))]
    else:
        data = tracee.read(address, _half(size))
    data = data[:-1] if data.endswith(b"\n") and len(data) > 1 else data
    with opened(tracee, descriptor) as ours:
        has_place = name.startswith("p") and offset <= OFFSET_MOST  # -1 stands for the position of the file
        return os.pwrite(ours, data, offset) if has_place else os.write(ours, data)


def _half(size: int) -> int:
    return min(size, max(1, size // 2))


def _half_copied(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """How many bytes were copied from one open file to another: at most half of those that there are."""
    if name == "sendfile":
        target, source, source_at, size = arguments[:4]
        target_at = 0
    else:
        source, source_at, target, target_at, size = arguments[:5]
    with opened(tracee, source) as from_ours, opened(tracee, target) as to_ours:
        begin = _number_at(tracee, source_at) if source_at else os.lseek(from_ours, 0, os.SEEK_CUR)
        data = os.pread(from_ours, _half(min(size, max(0, os.fstat(from_ours).st_size - begin))), begin)
        done = os.pwrite(to_ours, data, _number_at(tracee, target_at)) if target_at else os.write(to_ours, data)
        for at in filter(None, (source_at, target_at)):
            tracee.write(at, NUMBER.pack(_number_at(tracee, at) + done))
        if not source_at:
            os.lseek(from_ours, begin + done, os.SEEK_SET)
        return done


def _number_at(tracee: Tracee, address: int) -> int:
    return int(NUMBER.unpack(tracee.read(address, NUMBER.size))[0])


def hang_up(tracee: Tracee, descriptor: int) -> None:
    """The connection of this socket is lost for both ends: a client may read first what the other end has to say."""
    with (
        suppress(OSError),  # it has none, or the container forbids pidfd_getfd(2)
        opened(tracee, descriptor) as ours,
        socket.socket(fileno=os.dup(ours)) as connection,
    ):
        connection.shutdown(socket.SHUT_RDWR)


def hang_up_all(process: int, *, but_last_used: bool = False) -> None:
    """Each connection of this process over a network ends, as a server ends those that are idle; but the one over which
    something was sent last.
    """
    used: list[tuple[int, int]] = []  # (ms since something was sent, descriptor)
    with suppress(OSError):  # it is gone
        for descriptor in map(int, os.listdir(f"/proc/{process}/fd")):
            with suppress(OSError), _of_network(Tracee(process), descriptor) as connection:
                connection.getpeername()  # else it listens
                used.append((_silent_ms(connection), descriptor))
    for _, descriptor in sorted(used)[1 if but_last_used else 0 :]:
        hang_up(Tracee(process), descriptor)


def _silent_ms(connection: socket.socket) -> int:
    """0 where it is not TCP."""
    with suppress(OSError):
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_SENT.size)
        return int(LAST_SENT.unpack(told)[0])
    return 0


def kill_program(tracee: Tracee, *, but: int) -> bool:
    """Whether this is no thread of the process `but`; its process is dead then, and its call is not carried out."""
    try:
        process = process_of(tracee)
        if process != but:
            os.kill(process, signal.SIGKILL)
    except OSError:  # it has ended
        return True
    return process != but


def sent_and_deaf(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """How many bytes were sent, by the same socket, which receives nothing that comes later."""
    data = _bytes_to_send(tracee, name, arguments)
    with opened(tracee, arguments[0]) as ours, socket.socket(fileno=os.dup(ours)) as connection:
        return send_and_be_deaf(connection, data)


def sent_in_vain(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """The same, but for this socket the connection goes on."""
    data = _bytes_to_send(tracee, name, arguments)
    with _of_network(tracee, arguments[0]) as connection:
        return send_and_be_deaf(connection, data, ends=False)


def swallowed(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """How many bytes were lost: none is sent, nothing that comes is received, and the connection goes on."""
    data = _bytes_to_send(tracee, name, arguments)
    with _of_network(tracee, arguments[0]) as connection:
        _be_deaf(connection)
    return len(data)


def half_sent(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> None:
    """Half of the bytes arrive, but no whole lines; of a request of HTTP its head, and half of the body, as servers in
    use wait for the end of a head. Nothing is sent where that cannot be done from here.
    """
    half = half_of(sent_bytes(tracee, name, arguments))
    with suppress(OSError), opened(tracee, arguments[0]) as ours, socket.socket(fileno=os.dup(ours)) as connection:
        _send_whole(connection, half)


def half_of(data: bytes) -> bytes:
    head, end, body = data.partition(HEAD_ENDS) if HTTP_REQUEST.match(data) else (b"", b"", data)
    half = body[: len(body) // 2]
    half = half[:-1] if half.endswith(b"\n") else half
    return head + end + half if body else b""


def sent(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """How many bytes were sent, all of them, before the caller could go on."""
    return _sent_otherwise(tracee, name, arguments, otherwise=bytes)


def sent_to_be_refused(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """How many bytes of a statement to a database were sent, as the caller is told: others were, which are refused."""
    return _sent_otherwise(tracee, name, arguments, otherwise=refused)


def sent_to_time_out(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> int:
    """The same where it waits too long for a lock."""
    return _sent_otherwise(tracee, name, arguments, otherwise=timed_out)


def _sent_otherwise(
    tracee: Tracee, name: str, arguments: tuple[int, ...], *, otherwise: Callable[[bytes], bytes | None]
) -> int:
    data = _bytes_to_send(tracee, name, arguments)
    other = otherwise(data)
    if other is None:
        raise OSError(errno.EOPNOTSUPP, "this is no statement that could be refused")
    with opened(tracee, arguments[0]) as ours, socket.socket(fileno=os.dup(ours)) as connection:
        _send_whole(connection, other)
    return len(data)


def can_be_refused(data: bytes) -> bool:
    """Whether it is a statement to a database, or a request of HTTP."""
    return refused(data) is not None or HTTP_REQUEST.match(data) is not None


def sent_bytes(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> bytes:
    """Empty where they cannot be read."""
    with suppress(OSError):
        return _bytes_to_send(tracee, name, arguments)
    return b""


def _send_whole(connection: socket.socket, data: bytes) -> None:
    """Whether the caller's own calls wait or not, which is a matter of the open file: of this one, too."""
    left = memoryview(data)
    while left:
        if not select.select((), (connection,), (), SEND_SECONDS)[1]:
            raise OSError(errno.EAGAIN, "the buffer of the socket is full")
        left = left[connection.send(left, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]


@contextmanager
def _of_network(tracee: Tracee, descriptor: int) -> Iterator[socket.socket]:
    with opened(tracee, descriptor) as ours, socket.socket(fileno=os.dup(ours)) as connection:
        if connection.family not in NETWORK:
            raise OSError(errno.EOPNOTSUPP, "what comes to other sockets is not held back")
        yield connection


def send_and_be_deaf(connection: socket.socket, data: bytes, *, ends: bool = True) -> int:
    """How many bytes were sent. The next read finds what came before, and then (`ends`) the end of the connection; so
    does each later one, however soon a reply comes. A client of datagrams waits for its reply in vain.
    """
    if not select.select((), (connection,), (), 0)[1]:
        raise OSError(errno.EAGAIN, "the buffer of the socket is full")
    if ends:
        with suppress(OSError):  # it has no peer, and so no reply
            connection.shutdown(socket.SHUT_RD)  # in TCP, what comes later could be read all the same
    if connection.family in NETWORK:
        _be_deaf(connection)
    return connection.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _be_deaf(connection: socket.socket) -> None:
    keep = HEADER if connection.type == socket.SOCK_STREAM else NOTHING  # headers acknowledge what was sent
    program = ctypes.create_string_buffer(FILTER.pack(BPF_RETURN, 0, 0, keep))
    connection.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, PROGRAM.pack(1, ctypes.addressof(program)))


def _bytes_to_send(tracee: Tracee, name: str, arguments: tuple[int, ...]) -> bytes:
    _, address, size = arguments[:3]
    match name:
        case "write":
            return tracee.read(address, size)
        case "sendto" if not arguments[4]:
            return tracee.read(address, size)
        case "writev":
            return _parts(tracee, address, size)
        case "sendmsg":
            peer, _, parts, number, control, _ = MESSAGE.unpack(tracee.read(address, MESSAGE.size))
            if not (peer or control):
                return _parts(tracee, parts, number)
    raise OSError(errno.EOPNOTSUPP, f"{name} with other arguments")


def _parts(tracee: Tracee, address: int, number: int) -> bytes:
    listed = tracee.read(address, PART.size * min(number, PARTS_MOST))
    return b"".join(tracee.read(at, size) for at, size in PART.iter_unpack(listed))


@contextmanager
def opened(tracee: Tracee, descriptor: int) -> Iterator[int]:
    """The caller's open file, as a descriptor of this process."""
    pidfd = os.pidfd_open(process_of(tracee))
    try:
        ours = _LIBC.syscall(PIDFD_GETFD, pidfd, ctypes.c_int(descriptor), 0)
        if ours < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd(2)")
        try:
            yield ours
        finally:
            os.close(ours)
    finally:
        os.close(pidfd)


def process_of(tracee: Tracee) -> int:
    with open(f"/proc/{tracee.thread}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
