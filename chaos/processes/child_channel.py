"""The child's side of its connection to the caller: a channel for messages, and inherited descriptors."""

from __future__ import annotations

import importlib
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

HEADER: Final = struct.Struct("!I")  # the length of the message that follows
EXIT_OUT_OF_MEMORY: Final = 71


class Inside:
    """The first argument of a child's entry: its end of the channel, and the descriptors it was given."""

    def __init__(self, channel: socket.socket, descriptors: Sequence[int]) -> None:
        self.channel, self.descriptors = channel, descriptors

    def receive(self) -> bytes | None:
        """The next message; None after the caller has closed the channel."""
        header = self._exactly(HEADER.size)
        return None if header is None else self._exactly(HEADER.unpack(header)[0])

    def send(self, message: bytes) -> None:
        self.channel.sendall(HEADER.pack(len(message)) + message)

    def _exactly(self, count: int) -> bytes | None:
        data = self.channel.recv(count)
        while 0 < len(data) < count:
            more = self.channel.recv(count - len(data))
            data = data + more if more else b""
        return data if len(data) == count else None


def resolve(entry: str) -> Callable[..., Any]:
    """The function that "module:function" names."""
    module, _, name = entry.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
