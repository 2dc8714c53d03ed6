"""Messages between our own processes: pickled, with their length in front, over one stream socket.

Nothing is unpickled but what a process of the same job has sent (peer_authentication.py): over TCP each message and its
length are sealed, so that a length is not believed, and a pickle not loaded, before its tag was checked. The sockets
between a process and its own child (socketpair) need no proof: no other process has their ends.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import struct
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.reference_engine.shells.spark.guarded_entrance import Admitted, without_delay
from sinkproof.reference_engine.shells.spark.host_addresses import LOOPBACK
from sinkproof.reference_engine.shells.spark.peer_authentication import TAG_BYTES, Connecting, Gone, Seals, Unproved

LENGTH: Final = struct.Struct("<I")
CHUNK: Final = 1 << 18
BACKLOG: Final = 128
MESSAGE_BYTES_MOST: Final = 1 << 30  # the largest ones carry the restored state of a subtask
CONNECT_SECONDS: Final = 20.0  # until the other end has answered; the successor of a dead coordinator takes 0.05
PROBES: Final = 5  # of a connection without messages, until it is given up
SILENCE_SECONDS: Final = 10  # from which a host that answers nothing counts as cut off; Flink takes 50
Address = str | tuple[str, int]  # an abstract UNIX name, or host and port
Message = tuple[Any, ...]  # (kind, ...)


def listen(network: str, name: str, *, host: str = LOOPBACK) -> socket.socket:
    """`network`: "unix" (one host, faster) or "tcp". Abstract names need no cleaning up: they end with the socket."""
    if network == "tcp":
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, 0), family=family, backlog=BACKLOG)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(b"\0" + name.encode())
    listening.listen(BACKLOG)
    return listening


def address_of(listening: socket.socket) -> Address:
    name = listening.getsockname()
    return os.fsdecode(name[1:]) if listening.family == socket.AF_UNIX else (name[0], name[1])


def connect(
    address: Address, secret: bytes, *, destination: int, introduced: tuple[int, int] = (0, 0)
) -> tuple[Connecting, socket.socket]:
    """The handshake, which has begun, and its socket. Raises OSError.

    ConnectionRefusedError: nothing listens there any more. ConnectionAbortedError: what listens is not of this job.
    """
    connected = socket.socket(socket.AF_UNIX) if isinstance(address, str) else _connected(address)
    try:
        if isinstance(address, str):
            connected.connect(b"\0" + address.encode())
        return Connecting(connected, secret, destination=destination, introduced=introduced), connected
    except Unproved as error:
        connected.close()
        raise unanswered(address, error) from error
    except OSError:
        connected.close()
        raise


def unanswered(address: Address, error: Unproved) -> ConnectionError:
    kind = ConnectionResetError if isinstance(error, Gone) else ConnectionAbortedError
    return kind(f"no process of this job answers at {address}: {error}")


def _connected(address: tuple[str, int]) -> socket.socket:
    return without_delay(socket.create_connection(address, timeout=CONNECT_SECONDS))


def control_connection(
    address: Address, secret: bytes, *, destination: int, silence: int = SILENCE_SECONDS
) -> ControlConnection:
    """Returns when both ends have proved that they belong to one job. Raises OSError."""
    handshake, connected = connect(address, secret, destination=destination)
    deadline = Deadline(CONNECT_SECONDS)
    try:
        while not handshake.advance():
            if deadline.over:
                raise TimeoutError(f"no process of this job answered at {address} in {CONNECT_SECONDS:.0f} s")
            select.select([handshake], [], [], deadline.left)
    except Unproved as error:
        connected.close()
        raise unanswered(address, error) from error
    except OSError:
        connected.close()
        raise
    return ControlConnection(connected, seals=handshake.seals, silence=silence)


def notice_silence(connected: socket.socket, seconds: int) -> None:
    """The kernel ends a connection to a host that answers nothing. Not for channels: there a receiver may be slow."""
    if connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, seconds // PROBES))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, seconds // PROBES))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * seconds)


class ControlConnection:
    """One end of a connection. Sending blocks (messages are small and always read); what cannot be sent will be
    noticed as the end of the stream.
    """

    __slots__ = ("_buffer", "_length", "_seals", "actor", "generation", "refusal", "socket")

    def __init__(self, connected: socket.socket, *, seals: Seals | None = None, silence: int = SILENCE_SECONDS) -> None:
        connected.setblocking(True)
        notice_silence(connected, silence)
        self.socket, self._buffer, self._seals = connected, bytearray(), seals
        self._length: int | None = None  # of the message that is arriving, once it is known, and proved
        self.actor, self.generation = 0, 0  # of the other end, once it has sent them
        self.refusal = ""  # why the stream was ended by this end

    @classmethod
    def admitted(cls, admitted: Admitted, *, silence: int) -> ControlConnection:
        return cls(admitted.socket, seals=admitted.seals, silence=silence)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, *message: Any) -> None:
        data = pickle.dumps(message)
        if len(data) > MESSAGE_BYTES_MOST:
            raise ValueError(f"a message {message[0]!r} of {len(data):,} bytes; {MESSAGE_BYTES_MOST:,} is the most")
        length = LENGTH.pack(len(data))
        try:
            if self._seals is None:
                self.socket.sendall(length + data)
            else:
                seal = self._seals.sending
                self.socket.sendall(b"".join((length, seal.tag(length), data, seal.tag(data))))
        except OSError:
            return  # its end of the stream will be read

    def receive(self) -> list[Message] | None:
        """What has arrived, at least one read's worth; None at the end of the stream."""
        try:
            chunk = self.socket.recv(CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
            return self._whole()
        except OSError:
            return None
        except Unproved as error:
            self.refusal = str(error)
            return None

    def _whole(self) -> list[Message]:
        found = []
        at = 0
        while (end := self._end_of_part(at)) <= len(self._buffer):
            part = self._opened(at, end)
            if self._length is None:
                (self._length,) = LENGTH.unpack(part)
                if self._length > MESSAGE_BYTES_MOST:
                    raise Unproved(f"a message of {self._length:,} bytes was announced")
            else:
                self._length = None
                found.append(pickle.loads(part))
            part.release()
            at = end
        del self._buffer[:at]
        return found

    def _end_of_part(self, at: int) -> int:
        """A message comes in two parts, its length and its content; each has its tag behind it."""
        size = LENGTH.size if self._length is None else self._length
        return at + size + (TAG_BYTES if self._seals is not None else 0)

    def _opened(self, at: int, end: int) -> memoryview:
        if self._seals is None:
            return memoryview(self._buffer)[at:end]
        with memoryview(self._buffer) as whole:
            part, tag = bytes(whole[at : end - TAG_BYTES]), bytes(whole[end - TAG_BYTES : end])
        self._seals.receiving.check(tag, part)
        return memoryview(part)

    def hang_up(self) -> None:
        """Both ends will read the end of the stream."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end was first

    def close(self) -> None:
        self.socket.close()
