"""The filter that a process puts on itself before it becomes the watched program, and how its listener is handed over.

It needs no right but NO_NEW_PRIVS, and all threads, children and programs that follow have it. A call is handed to the
holder of the listener before it is carried out; where no process holds it any more, the call fails at once with ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import threading
from typing import Final, NamedTuple

from sinkproof.chaos.system_calls.outward_calls import (
    AIO,
    ARCHITECTURES,
    BIND,
    CALLS,
    CLONES,
    CONNECT,
    CREATES,
    IO_URING,
    MAP,
    SECCOMP,
    SHARED,
    machine,
    number_of,
)

PR_SET_NO_NEW_PRIVS: Final = 38
SET_MODE_FILTER: Final = 1
NEW_LISTENER, WAIT_KILLABLE_RECV = 1 << 3, 1 << 5  # the latter: a signal does not interrupt a call that was handed over
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # classic BPF
ALLOW, NOTIFY, KILL_PROCESS, FAIL = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in the filter's data; the low half of an argument comes first
X32_CALLS: Final = 0x40000000  # another table of numbers, with the same word for the architecture
NO_DESCRIPTOR: Final = 0xFFFFFFFF
NAME_BYTES_MOST: Final = 64

Instruction = tuple[int, int, int, int]  # code, instructions to skip if true, if false, constant
_LIBC: Final = ctypes.CDLL(None, use_errno=True)  # loaded at import: nothing may be loaded between fork and exec


def _argument(number: int) -> Instruction:
    return LOAD, 0, 0, ARGUMENTS + 8 * number


def program() -> bytes:
    """Calls of another architecture end the process: their numbers mean something else."""
    out: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, ARCHITECTURES[machine()]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32_CALLS),
        (RETURN, 0, 0, KILL_PROCESS),
    ]
    allow = (RETURN, 0, 0, ALLOW)
    creates = {name: [_argument(at), (ANY_BIT, 1, 0, CREATES), allow] for name, at in (("open", 1), ("openat", 2))}
    clones = [_argument(1), (EQUAL, 2, 0, CLONES[0]), (EQUAL, 1, 0, CLONES[1]), allow]
    shares = [_argument(3), (ANY_BIT, 1, 0, SHARED), allow, _argument(4), (EQUAL, 0, 1, NO_DESCRIPTOR), allow]
    conditions: dict[str, list[Instruction]] = {**creates, "ioctl": clones, "mmap": shares}
    for name, call in {**CALLS, "mmap": MAP, "connect": CONNECT, "bind": BIND}.items():
        number, body = number_of(call), [*conditions.get(name, []), (RETURN, 0, 0, NOTIFY)]
        if number is not None:
            out += [(EQUAL, 0, len(body), number), *body]
    for call in (IO_URING, AIO):
        refused = number_of(call)
        assert refused is not None
        out += [(EQUAL, 0, 1, refused), (RETURN, 0, 0, FAIL | errno.ENOSYS)]
    out += [allow]
    return b"".join(struct.pack("HBBI", *each) for each in out)


def put_on(channel: socket.socket) -> None:
    """Called by the process that is about to become the program, in its main thread. The other end of `channel` gets
    the listener, or the number of an error; then the calls of this thread are watched.

    The listener is sent by a second thread, which has no filter, and ends with the exec: a `sendmsg` of this thread
    would wait for a listener that has not been received. The name of the socket itself goes with it.
    """
    own = os.readlink(f"/proc/self/fd/{channel.fileno()}").encode()
    installed = threading.Event()
    found: list[int] = []

    def hand_over() -> None:
        installed.wait()
        if found[0] >= 0:
            socket.send_fds(channel, [own], [found[0]])
        else:
            channel.sendall(str(-found[0]).encode())

    helper = threading.Thread(target=hand_over)
    helper.start()
    found.append(_install())
    installed.set()
    helper.join()
    if found[0] >= 0:
        os.close(found[0])


def _install() -> int:
    """The listener; negative: the number of an error."""
    if machine() not in ARCHITECTURES:
        return -errno.ENOSYS
    code = program()
    instructions = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(instructions)))
    if _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return -ctypes.get_errno()
    flags = NEW_LISTENER | WAIT_KILLABLE_RECV
    listener: int = _LIBC.syscall(SECCOMP[machine()], SET_MODE_FILTER, flags, header)
    return listener if listener >= 0 else -ctypes.get_errno()


class HandedOver(NamedTuple):
    """`listener`: negative: the number of the error for which there is none. `own_socket`: through which it came, as
    the watched process has it.
    """

    listener: int
    own_socket: str = ""


def receive_listener(channel: socket.socket) -> HandedOver:
    """The other end."""
    message, descriptors, _, _ = socket.recv_fds(channel, NAME_BYTES_MOST, 1)
    if not descriptors:
        return HandedOver(-int(message or errno.ECONNRESET))
    os.set_inheritable(descriptors[0], False)
    return HandedOver(descriptors[0], message.decode())


def reason(error: int) -> str:
    """Why the kernel, or the container, does not offer the watch, and what to allow."""
    if machine() not in ARCHITECTURES:
        return f"there is no table of system calls for {machine()}"
    if error in (errno.EINVAL, errno.ENOSYS):
        return "the kernel lacks seccomp user notification that signals do not interrupt: it needs Linux 5.19 or newer"
    if error == errno.EBUSY:
        return "another supervisor already watches this process tree: run it outside of that one"
    if error in (errno.EPERM, errno.EACCES):
        return "the container forbids seccomp(2): allow it, as Docker's default profile does"
    return f"seccomp(2) failed: {os.strerror(error)}"
