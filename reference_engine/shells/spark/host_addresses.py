"""By which addresses do the hosts of a cluster reach each other?"""

from __future__ import annotations

import re
import socket
import threading
from typing import Final

from sinkproof.chaos.clock import Deadline

LOOPBACK: Final = "127.0.0.1"
LOCAL_MASTERS: Final = ("local",)  # local[2] and local-cluster[2,2,1024]
MASTER_SECONDS: Final = 20.0  # until a master that is being started listens; some on an idle machine
POLL_SECONDS: Final = 0.1
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


def await_listener(address: tuple[str, int] | None) -> None:
    """Of a master that is being started, or of none: Spark itself would try again after twenty seconds only."""
    deadline = Deadline(MASTER_SECONDS)
    while address is not None and not deadline.over:
        try:
            socket.create_connection(address, timeout=deadline.left).close()
        except OSError:
            threading.Event().wait(POLL_SECONDS)
        else:
            return
