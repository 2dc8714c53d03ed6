"""The child's side of its connection to the caller: a channel for messages, and inherited descriptors."""

from __future__ import annotations

import importlib
import select
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

HEADER: Final = struct.Struct("!I")  # the length of the message that follows
READ_BYTES: Final = 1 << 14
EXIT_OUT_OF_MEMORY: Final = 71


class Inside:
    """The first argument of a child's entry: its end of the channel, and the descriptors it was given."""

    def __init__(self, channel: socket.socket, descriptors: Sequence[int]) -> None:
        self.channel, self.descriptors = channel, descriptors
        self._received = b""

    def receive(self) -> bytes | None:
        """The next message; None after the caller has closed the channel. Most messages take one system call."""
        received = self._received
        end = _end(received)
        while not 0 < end <= len(received):
            more = self.channel.recv(max(READ_BYTES, end - len(received)))
            if not more:
                return None
            received += more
            end = _end(received)
        self._received = received[end:]
        return received[HEADER.size : end]

    def has_more(self) -> bool:
        """Whether a message has come already."""
        return bool(self._received or select.select([self.channel], [], [], 0)[0])

    def send(self, message: bytes) -> None:
        self.channel.sendall(HEADER.pack(len(message)) + message)


def _end(received: bytes) -> int:
    """Where its first message ends; 0 if the header is not whole."""
    return HEADER.size + HEADER.unpack_from(received)[0] if len(received) >= HEADER.size else 0


def resolve(entry: str) -> Callable[..., Any]:
    """The function that "module:function" names."""
    module, _, name = entry.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
