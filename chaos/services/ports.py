"""Chooses free ports that a service can use again after each restart."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.service import ServiceUnavailable

HOST: Final = "127.0.0.1"
LOWEST: Final = 20000
SPREAD: Final = 10000  # two runs begin their search at different ports, up to so many apart
EPHEMERAL_BY_DEFAULT: Final = 32768


def free_ports(count: int, *, taken: Collection[int]) -> list[int]:
    """Free ports below the ephemeral range. Within that range, a client that connects to a dead broker's port may get
    that port itself, connect to itself, and block the restart of the broker. `taken`: by services that may be down.
    """
    first = LOWEST + os.getpid() * 16 % SPREAD
    top = _lowest_ephemeral()
    candidates = [*range(first, top), *range(LOWEST, first)]
    found: list[int] = []
    for port in candidates:
        if port not in taken and is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise ServiceUnavailable(
        f"there are no {count} free ports",
        evidence=f"between {LOWEST} and {top} on {HOST}",
        next_step="`sinkproof services status` lists what runs",
    )


def is_free(port: int) -> bool:
    """Whether a server can listen: recently closed connections (TIME_WAIT) are no obstacle."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((HOST, port))
            server.listen(1)  # two may bind with that option, but only one may listen
        except OSError:
            return False
    return True


def _lowest_ephemeral() -> int:
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        lowest = EPHEMERAL_BY_DEFAULT
    return lowest if lowest > LOWEST + SPREAD else EPHEMERAL_BY_DEFAULT
