"""Kills the process that has sent a message, by the TCP connection on which the message has come."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from sinkproof.chaos.processes.process_table import descendants, parents_of_all

TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
LOCAL, REMOTE, INODE = 1, 2, 9  # columns


def kill_sender(port: int, connected_to: int, *, below: int) -> bool:
    """SIGKILL to the descendants of the process `below` that hold the end of this connection: no others on the machine,
    and not that process itself. False: there is none.
    """
    sockets = _sockets(port, connected_to)
    senders = [pid for pid in descendants(below, parents_of_all()) if _holds(pid, sockets)]
    for pid in senders:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(senders)


def _sockets(port: int, connected_to: int) -> set[str]:
    """As the entries of /proc/PID/fd name them."""
    found: set[str] = set()
    for table in TABLES:
        with suppress(OSError):  # a machine without IPv6 has no second table
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
            found |= {
                f"socket:[{row[INODE]}]"
                for row in rows
                if (_port(row[LOCAL]), _port(row[REMOTE])) == (port, connected_to)
            }
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _holds(pid: int, sockets: set[str]) -> bool:
    try:
        return not sockets.isdisjoint(_target(entry.path) for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return False  # it has just ended


def _target(link: str) -> str:
    """Empty if the process has just closed what it had opened."""
    try:
        return os.readlink(link)
    except OSError:
        return ""
