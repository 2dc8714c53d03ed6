"""Data channels between attempts: batches, barriers and the end of input, in order, with credits against the flood.

A frame is a header and, for batches, an Arrow message. Each batch costs its sender one credit, and the receiver gives
it back when the batch is processed: a slow sink so stops its sources, and no buffer grows. Barriers need no credit.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Any, Final

from sinkproof.reference_engine.dataflow.subtask import UNDRAINED

FRAME: Final = struct.Struct("<BIQ")  # kind, bytes that follow, checkpoint id
HELLO: Final = struct.Struct("<QI")  # generation, actor id of the sender
KINDS: Final = ("rows", "barrier", "end", "urgent", "timed_barrier", "watermark", "idle")  # by their codes
ROWS, BARRIER, END, URGENT, TIMED, WATERMARK, IDLE = range(len(KINDS))
NUMBER: Final = struct.Struct("<d")
# Batches on their way per channel: one being processed, one waiting, one being made. Barriers queue behind them: 8 made
# no job faster, but took each checkpoint twice as long where sinks are the slowest part (36 ms instead of 17).
CREDITS: Final = 3
CREDIT: Final = b"c"
RECEIVE_BUFFER: Final = 1 << 20  # bytes requested of the kernel, so that a batch moves in few calls


class ChannelLost(Exception):
    """The other end is gone. This attempt ends, too: the next generation connects anew."""


class OutChannel:
    """To one downstream attempt. Nothing here blocks: what the socket does not take waits, bounded by the credits."""

    def __init__(self, connected: socket.socket, *, generation: int, actor: int) -> None:
        connected.sendall(HELLO.pack(generation, actor))
        connected.setblocking(False)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BUFFER)
        self.socket, self.credits = connected, CREDITS
        self.waiting: deque[memoryview] = deque()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, kind: int, *, data: Any = b"", checkpoint_id: int = 0) -> None:
        view = memoryview(data)
        self.waiting.append(memoryview(FRAME.pack(kind, view.nbytes, checkpoint_id)))
        if view.nbytes:
            self.waiting.append(view.cast("B"))
        self.credits -= kind == ROWS
        self.flush()

    def flush(self) -> None:
        try:
            while self.waiting:
                self._sent(self.socket.sendmsg(list(self.waiting)[:16]))
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelLost("the receiver is gone") from error

    def _sent(self, count: int) -> None:
        while count:
            first = self.waiting[0]
            if count < first.nbytes:
                self.waiting[0] = first[count:]
                return
            count -= first.nbytes
            self.waiting.popleft()

    def take_credits(self) -> int:
        """How many were given."""
        try:
            given = self.socket.recv(4096)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelLost("the receiver is gone") from error
        if not given:
            raise ChannelLost("the receiver has closed the channel")
        self.credits += len(given)
        return len(given)


class InChannel:
    """From one upstream attempt: `receive` returns a whole frame, or None if there is none yet."""

    def __init__(self, connected: socket.socket, *, sender: int) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self.socket, self.sender, self.ended = connected, sender, False
        self._head = bytearray(FRAME.size)
        self._frame: tuple[int, int, int] | None = None  # the header, once it is whole
        self._into = memoryview(self._head)
        self._body = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> tuple[int, int, bytearray] | None:
        """(kind, checkpoint id, message)."""
        while True:
            if self._into and not self._fill():
                return None
            if self._frame is None:
                self._frame = FRAME.unpack(self._head)
                self._body = bytearray(self._frame[1])  # a new one: the batch is a view of it
                self._into = memoryview(self._body)
                continue
            kind, _, checkpoint_id = self._frame
            self._frame, self._into = None, memoryview(self._head)
            return kind, checkpoint_id, self._body

    def _fill(self) -> bool:
        while self._into:
            try:
                count = self.socket.recv_into(self._into)
            except BlockingIOError:
                return False
            except OSError as error:
                raise ChannelLost("the sender is gone") from error
            if not count:
                raise ChannelLost("the sender has closed the channel")
            self._into = self._into[count:]
        return True

    def give_credits(self, count: int) -> None:
        try:
            self.socket.send(CREDIT * count)
        except OSError as error:
            raise ChannelLost("the sender is gone") from error


def receive_hello(connected: socket.socket) -> tuple[int, int] | None:
    """(generation, actor id) of the sender; None if it closed the connection first."""
    hello = connected.recv(HELLO.size, socket.MSG_WAITALL)
    return HELLO.unpack(hello) if len(hello) == HELLO.size else None


def frame_of(kind: str, payload: Any) -> tuple[int, int, bytes]:
    """(code, checkpoint id, message) of an event that is not rows."""
    match kind:
        case "timed_barrier":
            return TIMED, payload[0], NUMBER.pack(payload[1])
        case "watermark":
            return WATERMARK, 0, NUMBER.pack(payload)
        case "end":
            return END, int(payload is not None), b""
        case _:
            return KINDS.index(kind), payload or 0, b""


def event_of(code: int, number: int, message: bytearray) -> tuple[str, Any]:
    """(kind, payload) of a frame that is not rows."""
    kind = KINDS[code]
    match kind:
        case "timed_barrier":
            return kind, (number, NUMBER.unpack(message)[0])
        case "watermark":
            return kind, NUMBER.unpack(message)[0]
        case "end":
            return kind, UNDRAINED if number else None
        case _:
            return kind, number or None
