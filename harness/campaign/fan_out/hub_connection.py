"""A campaign's connection to the hub, which passes its messages on to slots.

    to the hub      ("spawn", slot, key, entry, arguments) · ("to", key, message) · ("end", key)
    from the hub    ("joined", slot, host) · ("from", key, message) · ("ended", key, said, slot or None)

The hub listens in a folder that no other user may enter, and both ends prove that they know the secret of this
certification before anything is unpickled (peer_authentication.py).
"""

from __future__ import annotations

import select
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from sinkproof.reference_engine.shells.spark.control_messages import ControlConnection
from sinkproof.reference_engine.shells.spark.peer_authentication import Connecting, Unproved

SLOTS, CAMPAIGNS = 1, 2  # destinations of a handshake
HUB_GONE: Final = "the driver of Spark is gone, and its executors with it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """Where the hub of one certification is."""

    socket: str
    secret: bytes = field(repr=False)


def connected_to(path: str, secret: bytes, *, destination: int) -> ControlConnection:
    """Over a UNIX socket with a name in a folder. Raises OSError."""
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.connect(path)
        Connecting(connected, secret, destination=destination)
    except Unproved as error:
        connected.close()
        raise ConnectionAbortedError(f"no process of this certification answers at {path}: {error}") from error
    except OSError:
        connected.close()
        raise
    return ControlConnection(connected)


@dataclass(slots=True)
class Mailbox:
    """What has arrived of one worker. `ended`: why nothing more will come; empty: it lives."""

    messages: deque[bytes] = field(default_factory=deque)
    ended: str = ""


class HubConnection:
    """One thread uses it."""

    def __init__(self, fan_out: FanOut) -> None:
        self.connection: ControlConnection | None
        self.joined = deque[tuple[int, str]]()  # slots without a worker of this campaign, and their hosts
        self.boxes: dict[int, Mailbox] = {}
        self.gone = ""  # why the hub does not answer
        self.hosts: dict[int, str] = {}
        try:
            self.connection = connected_to(fan_out.socket, fan_out.secret, destination=CAMPAIGNS)
        except OSError:
            self.connection, self.gone = None, HUB_GONE

    def say(self, *message: Any) -> None:
        if self.connection is not None:
            self.connection.send(*message)

    def spawn(self, slot: int, entry: str, *arguments: Any) -> int:
        """The key of a new worker process."""
        key = len(self.boxes)
        self.boxes[key] = Mailbox(ended=self.gone)
        self.say("spawn", slot, key, entry, arguments)
        return key

    def pump(self, seconds: float) -> None:
        """Takes what has arrived; waits for something at most so long."""
        if self.connection is None or not select.select([self.connection], [], [], seconds)[0]:
            return
        messages = self.connection.receive()
        if messages is None:
            self._lose_all()
        for message in messages or ():
            getattr(self, "on_" + message[0])(*message[1:])

    def on_joined(self, slot: int, host: str) -> None:
        self.hosts[slot] = host
        self.joined.append((slot, host))

    def on_from(self, key: int, message: bytes) -> None:
        self.boxes[key].messages.append(message)

    def on_ended(self, key: int, said: str, slot: int | None) -> None:
        """`slot`: that has room for another worker; None: it is gone, too."""
        self.boxes[key].ended = said
        if slot is not None:
            self.joined.append((slot, self.hosts[slot]))

    def _lose_all(self) -> None:
        self.close()
        self.gone = HUB_GONE
        for box in self.boxes.values():
            box.ended = box.ended or self.gone

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
