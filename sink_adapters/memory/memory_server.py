"""Runs a MemoryStore in a process of its own, for shells where every sink is a process that may be killed.

Requests and answers are length-prefixed pickles over a UNIX socket in a folder that only its owner can enter. One
thread handles one request at a time, so that each is as atomic as in the store itself. A partial request of a killed
client has no effect. The server is killed with the process that started it.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Fenced, without_line_points
from sinkproof.sink_adapters.request_counts import SENT

SOCKET: Final = "memory.socket"
LENGTH: Final = struct.Struct("!I")
CHUNK_BYTES: Final = 1 << 16
PR_SET_PDEATHSIG: Final = 1  # from <linux/prctl.h>
ANSWERED_BY_ERROR: Final = (Fenced, ValueError, LookupError, TypeError, AttributeError)


# -- the client ----------------------------------------------------------------------------------


@without_line_points
class RemoteStore:
    """The methods of MemoryStore, each a request over one connection. Not to be shared by processes."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        with _short_path(folder) as path:
            self._socket.connect(path)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._request, name)

    def _request(self, name: str, *arguments: Any) -> Any:
        message = _framed((name, arguments))
        SENT.add(len(message))
        self._socket.sendall(message)
        head = self._read(LENGTH.size)
        failed, answer = pickle.loads(self._read(LENGTH.unpack(head)[0]))
        if failed:
            raise answer
        return answer

    def _read(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError("the memory server is gone")
            received += part
        return bytes(received)

    def close(self) -> None:
        self._socket.close()


def _framed(content: Any) -> bytes:
    body = pickle.dumps(content)
    return LENGTH.pack(len(body)) + body


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """A path to the socket that fits a socket address (108 bytes), for any folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


# -- starting and stopping -----------------------------------------------------------------------


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Starts a server for this folder; on return it accepts connections."""
    command = [sys.executable, "-m", "sinkproof.sink_adapters.memory.memory_server", str(folder), str(os.getpid())]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        status = server.wait()
        server.stdout.close()
        raise RuntimeError(f"the memory server did not start: exit status {status}; its message is on stderr")
    return server


def stop(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.kill()
    server.wait()
    if server.stdout is not None:
        server.stdout.close()
    (folder / SOCKET).unlink(missing_ok=True)


# -- the server ----------------------------------------------------------------------------------


@without_line_points
class ClientConnection:
    """The bytes received from one client. A client that stops in the middle of a request delays no other client."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel, self.received = channel, bytearray()

    def requests(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Whole requests only. Raises ConnectionError at the end."""
        part = self.channel.recv(CHUNK_BYTES)
        if not part:
            raise ConnectionError("closed")
        self.received += part
        while len(self.received) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self.received)[0]
            if len(self.received) < end:
                return
            request = pickle.loads(bytes(self.received[LENGTH.size : end]))
            del self.received[:end]
            yield request


def serve(folder: Path) -> None:
    store, selector = MemoryStore(), selectors.DefaultSelector()
    listening = socket.socket(socket.AF_UNIX)
    with _short_path(folder) as path:
        listening.bind(path)
    listening.listen(64)
    selector.register(listening, selectors.EVENT_READ, None)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for key, _ in selector.select():
            if key.data is None:
                channel, _ = listening.accept()
                selector.register(channel, selectors.EVENT_READ, ClientConnection(channel))
            elif not _handle(store, key.data):
                selector.unregister(key.data.channel)
                key.data.channel.close()


def _handle(store: MemoryStore, connection: ClientConnection) -> bool:
    """Answers the received requests. False: the client has disconnected."""
    try:
        for name, arguments in connection.requests():
            connection.channel.sendall(_framed(_answer(store, name, arguments)))
    except OSError:
        return False
    return True


def _answer(store: MemoryStore, name: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        found = getattr(store, name)
        return False, found(*arguments) if callable(found) else found
    except ANSWERED_BY_ERROR as error:
        return True, error


def die_with(parent: int) -> None:
    """Requests SIGKILL for this process when the parent ends in any way."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # the parent ended before the request


if __name__ == "__main__":
    die_with(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    serve(Path(sys.argv[1]))
