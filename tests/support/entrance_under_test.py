"""An entrance of the Spark shell in a loop of its own, for tests of its guests."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.chaos.shared.event_log import EventLog, EventLogReader, Happening
from sinkproof.reference_engine.shells.spark.control_messages import address_of, connect, listen
from sinkproof.reference_engine.shells.spark.guarded_entrance import Admitted, Entrance
from sinkproof.reference_engine.shells.spark.peer_authentication import Connecting

SECRET: Final = bytes(range(32))
ACTOR: Final = 3
SECONDS: Final = 10.0


class Door:
    """An entrance in a loop of its own, and what came of it."""

    def __init__(self, network: str, folder: Path) -> None:
        self.poll, self.log = select.epoll(), folder / "events"
        self.listening = listen(network, f"door-{os.getpid()}-{id(self)}")
        events = EventLog(self.log)
        self.entrance = Entrance(self.listening, self.poll, secret=SECRET, destination=ACTOR, events=events)
        self.admitted: list[Admitted] = []
        self.guests: list[Connecting] = []

    @property
    def address(self) -> Any:
        return address_of(self.listening)

    def close(self) -> None:
        waiting = [handshake for handshake, _ in self.entrance.pending.values()]
        for one in (*self.admitted, *waiting, *self.guests):
            one.socket.close()
        self.listening.close()
        self.poll.close()

    def turn(self, *, seconds: float = 0.0) -> None:
        for descriptor, _ in self.poll.poll(self.entrance.patience(seconds)):
            if (admitted := self.entrance.ready(descriptor)) is not None:
                self.admitted.append(admitted)
        self.entrance.drop_late()

    def until(self, reached: Callable[[], Any]) -> None:
        for _ in range(1000):
            if reached():
                return
            self.turn(seconds=SECONDS / 1000)
        pytest.fail(f"never: admitted {self.admitted}, refused {self.refused}")

    @property
    def refused(self) -> list[Happening]:
        return EventLogReader(self.log).new()

    def raw(self) -> socket.socket:
        """A connection that has sent nothing."""
        address = self.address
        if isinstance(address, str):
            connected = socket.socket(socket.AF_UNIX)
            connected.connect(b"\0" + address.encode())
        else:
            connected = socket.create_connection(address)
        connected.settimeout(SECONDS)
        return connected

    def guest(self, *, secret: bytes = SECRET, destination: int = ACTOR) -> tuple[Connecting, Admitted]:
        """Both ends of a connection."""
        handshake, _ = connect(self.address, secret, destination=destination, introduced=(7, 2))
        self.guests.append(handshake)
        before = len(self.admitted)
        self.until(lambda: handshake.advance() and len(self.admitted) > before)
        return handshake, self.admitted[-1]
