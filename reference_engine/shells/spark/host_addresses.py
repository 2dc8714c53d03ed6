"""By which addresses do the hosts of a cluster reach each other?"""

from __future__ import annotations

import re
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LOCAL_MASTERS: Final = ("local",)  # local[2] and local-cluster[2,2,1024]
SPARK_MASTER: Final = re.compile(r"spark://(?:\[([^\]]+)]|([^:,/]+)):(\d+)")


def on_one_host(master: str) -> bool:
    return master.startswith(LOCAL_MASTERS)


def master_address(master: str) -> tuple[str, int] | None:
    """Of a standalone master, the first of several; None for other kinds of masters."""
    match = SPARK_MASTER.match(master)
    return (match[1] or match[2], int(match[3])) if match else None


def own_address(towards: tuple[str, int] | None) -> str:
    """This host's address on the way to another one. No packet is sent."""
    if towards is None:
        return socket.gethostbyname(socket.gethostname())
    family, _, _, _, address = socket.getaddrinfo(*towards, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
