"""The system calls that change something outside of a process: their numbers, and which arguments say what they change.

Between two of them a SIGKILL leaves the same outside. Left out are calls that change only memory, and owners of files.
"""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Callable
from typing import Final, NamedTuple

CREATES: Final = 0o100 | 0o1000  # O_CREAT | O_TRUNC
SHARED: Final = 1  # MAP_SHARED, which MAP_SHARED_VALIDATE contains
CLONES: Final = (0x40049409, 0x4020940D)  # FICLONE, FICLONERANGE


class OutwardCall(NamedTuple):
    """Numbers by architecture (None: it has no such call). `descriptor`: the argument that is an open file. `paths`:
    (argument with the folder's descriptor, argument with the path), what the call makes first.
    """

    x86_64: int | None
    aarch64: int | None
    descriptor: int | None = None
    paths: tuple[tuple[int | None, int], ...] = ()


def _of_file(x86_64: int, aarch64: int, *argument: int) -> OutwardCall:
    return OutwardCall(x86_64, aarch64, descriptor=argument[0] if argument else 0)


def _of_path(x86_64: int, aarch64: int | None, *arguments: int) -> OutwardCall:
    return OutwardCall(x86_64, aarch64, paths=tuple((None, each) for each in arguments or (0,)))


def _at(x86_64: int, aarch64: int, *arguments: int) -> OutwardCall:
    """`arguments`: those with a descriptor; the path follows each."""
    return OutwardCall(x86_64, aarch64, paths=tuple((each, each + 1) for each in arguments or (0,)))


CALLS: Final[dict[str, OutwardCall]] = {
    "write": _of_file(1, 64),
    "pwrite64": _of_file(18, 68),
    "writev": _of_file(20, 66),
    "pwritev": _of_file(296, 70),
    "pwritev2": _of_file(328, 287),
    "sendto": _of_file(44, 206),
    "sendmsg": _of_file(46, 211),
    "sendmmsg": _of_file(307, 269),
    "sendfile": _of_file(40, 71),
    "splice": _of_file(275, 76, 2),
    "copy_file_range": _of_file(326, 285, 2),
    "ioctl": _of_file(16, 29),
    "fsync": _of_file(74, 82),
    "fdatasync": _of_file(75, 83),
    "sync_file_range": _of_file(277, 84),
    "syncfs": _of_file(306, 267),
    "sync": OutwardCall(162, 81),
    "ftruncate": _of_file(77, 46),
    "fallocate": _of_file(285, 47),
    "fsetxattr": _of_file(190, 7),
    "fremovexattr": _of_file(199, 16),
    "fchmod": _of_file(91, 52),
    "open": _of_path(2, None),
    "creat": _of_path(85, None),
    "truncate": _of_path(76, 45),
    "rename": _of_path(82, None, 1, 0),
    "link": _of_path(86, None, 1),
    "symlink": _of_path(88, None, 1),
    "unlink": _of_path(87, None),
    "mkdir": _of_path(83, None),
    "rmdir": _of_path(84, None),
    "mknod": _of_path(133, None),
    "chmod": _of_path(90, None),
    "setxattr": _of_path(188, 5),
    "lsetxattr": _of_path(189, 6),
    "removexattr": _of_path(197, 14),
    "lremovexattr": _of_path(198, 15),
    "openat": _at(257, 56),
    "openat2": _at(437, 437),
    "renameat": _at(264, 38, 2, 0),
    "renameat2": _at(316, 276, 2, 0),
    "linkat": _at(265, 37, 2),
    "symlinkat": _at(266, 36, 1),
    "unlinkat": _at(263, 35),
    "mkdirat": _at(258, 34),
    "mknodat": _at(259, 33),
    "fchmodat": _at(268, 53),
    "fchmodat2": _at(452, 452),
    "utimensat": _at(280, 88),
    "utime": _of_path(132, None),
    "utimes": _of_path(235, None),
    "futimesat": OutwardCall(261, None, paths=((0, 1),)),
}
OPENING: Final = ("open", "openat", "openat2")
MAKING: Final = (
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mknod",
    "mknodat",
)  # fail if it is there
FOLLOWING: Final = (*OPENING, "creat", "truncate", "chmod", "setxattr", "removexattr")  # a link at the end of the path
CONNECT: Final = OutwardCall(42, 203)  # changes nothing that counts; says with which servers it has to do
BIND: Final = OutwardCall(49, 200)  # nor does this; an address can be bound by one process only
MAP: Final = OutwardCall(9, 222, descriptor=4)  # mmap: what is written through it is no call, and is not seen
IO_URING: Final = OutwardCall(425, 425)  # io_uring_setup: its requests are no calls; libraries fall back
AIO: Final = OutwardCall(206, 0)  # io_setup: its requests are no calls, either
ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_... of the filter's data
SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
TRIED: Final = ("x86_64",)
CUT: Final = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range")  # may write less
SENDING: Final = ("write", "writev", "sendto", "sendmsg")  # the same of sockets
BY_PATH: Final[dict[str, Callable[..., None]]] = {  # which the supervisor can carry out, so that replies can be lost
    **dict.fromkeys(("rename", "renameat", "renameat2"), lambda new, old: os.rename(old, new)),
    **dict.fromkeys(("unlink", "unlinkat"), os.unlink),
    **dict.fromkeys(("mkdir", "mkdirat"), os.mkdir),
    "rmdir": os.rmdir,
}
NEEDS_ROOM: Final = ("write", "pwrite", "open", "creat", "mk", "link", "symlink", "fallocate", "copy_", "sendfile")


def machine() -> str:
    return platform.machine()


def number_of(call: OutwardCall) -> int | None:
    """None: this architecture has no such call, or there is no table of its numbers."""
    number: int | None = getattr(call, machine(), None)
    return number


def error_of(name: str, *, is_socket: bool) -> int:
    """The error that a fault gives back: what a full disk, a lost connection or a lacking right is to this call."""
    if is_socket:
        return errno.ECONNRESET
    if "sync" in name:
        return errno.EIO
    return errno.ENOSPC if name.startswith(NEEDS_ROOM) else errno.EACCES
