"""Messages between our own processes: pickled, with their length in front, over one stream socket.

Only processes of one job use these sockets: the driver passes their addresses on.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from typing import Any, Final

LENGTH: Final = struct.Struct("<I")
PEER: Final = struct.Struct("3i")  # pid, user, group
CHUNK: Final = 1 << 18
BACKLOG: Final = 128
Address = str | tuple[str, int]  # an abstract UNIX name, or host and port
Message = tuple[Any, ...]  # (kind, ...)


def listen(network: str, name: str) -> socket.socket:
    """`network`: "unix" (one host, faster) or "tcp". Abstract names need no cleaning up: they end with the socket."""
    if network == "tcp":
        return socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(b"\0" + name.encode())
    listening.listen(BACKLOG)
    return listening


def accept(listening: socket.socket) -> socket.socket | None:
    """None for a stranger: what is read from here is unpickled, so it must come from a process of the same user."""
    connected = listening.accept()[0]
    if connected.family == socket.AF_UNIX:
        _, user, _ = PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
        if user != os.getuid():
            connected.close()
            return None
    return without_delay(connected)


def address_of(listening: socket.socket) -> Address:
    name = listening.getsockname()
    return os.fsdecode(name[1:]) if listening.family == socket.AF_UNIX else (name[0], name[1])


def connect(address: Address) -> socket.socket:
    if isinstance(address, str):
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.connect(b"\0" + address.encode())
        except OSError:
            connected.close()
            raise
        return connected
    host, port = address
    return without_delay(socket.create_connection((host, port)))


def without_delay(connected: socket.socket) -> socket.socket:
    """Small messages must not wait for more."""
    if connected.family != socket.AF_UNIX:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


class ControlConnection:
    """One end of a connection. Sending blocks (messages are small and always read); what cannot be sent will be
    noticed as the end of the stream.
    """

    __slots__ = ("_buffer", "actor", "generation", "socket")

    def __init__(self, connected: socket.socket) -> None:
        self.socket, self._buffer = connected, bytearray()
        self.actor, self.generation = 0, 0  # of the other end, once it has sent them

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, *message: Any) -> None:
        data = pickle.dumps(message)
        try:
            self.socket.sendall(LENGTH.pack(len(data)) + data)
        except OSError:
            return  # its end of the stream will be read

    def receive(self) -> list[Message] | None:
        """What has arrived, at least one read's worth; None at the end of the stream."""
        try:
            chunk = self.socket.recv(CHUNK)
        except OSError:
            return None
        if not chunk:
            return None
        self._buffer += chunk
        return self._whole()

    def _whole(self) -> list[Message]:
        found, at = [], 0
        while len(self._buffer) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer, at)
            end = at + LENGTH.size + length
            if end > len(self._buffer):
                break
            found.append(pickle.loads(memoryview(self._buffer)[at + LENGTH.size : end]))
            at = end
        del self._buffer[:at]
        return found

    def hang_up(self) -> None:
        """Both ends will read the end of the stream."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end was first

    def close(self) -> None:
        self.socket.close()
