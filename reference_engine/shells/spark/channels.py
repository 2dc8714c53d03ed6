"""Data channels between attempts: batches, barriers and the end of input, in order, with credits against the flood.

A frame is a header and, for batches, an Arrow message. Each batch costs its sender one credit, and the receiver gives
it back when the batch is processed: a slow sink so stops its sources, and no buffer grows. Barriers need no credit.
Over TCP each header, each message and each credit has a tag (peer_authentication.py): memory is allocated for a length
that was proved. Over UNIX sockets no third process can change anything, and tags would cost 50 ns a row beside 7.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from itertools import islice
from typing import Any, Final

from sinkproof.reference_engine.dataflow.subtask import UNDRAINED
from sinkproof.reference_engine.shells.spark.guarded_entrance import Admitted
from sinkproof.reference_engine.shells.spark.peer_authentication import TAG_BYTES, Connecting, Gone, Seals, Unproved

FRAME: Final = struct.Struct("<BIQ")  # kind, bytes that follow, checkpoint id
KINDS: Final = ("rows", "barrier", "end", "urgent", "timed_barrier", "watermark", "idle")  # by their codes
ROWS, BARRIER, END, URGENT, TIMED, WATERMARK, IDLE = range(len(KINDS))
NUMBER: Final = struct.Struct("<d")
# Batches on their way per channel: one being processed, one waiting, one being made. Barriers queue behind them: 8 made
# no job faster, but took each checkpoint twice as long where sinks are the slowest part (36 ms instead of 17).
CREDITS: Final = 3
CREDIT: Final = b"c"
CREDITS_READ: Final = 4096  # bytes at once
FRAME_BYTES_MOST: Final = 1 << 30  # a batch has some hundred kilobytes
RECEIVE_BUFFER: Final = 1 << 20  # bytes requested of the kernel, so that a batch moves in few calls


class ChannelLost(Exception):
    """The other end is gone. This attempt ends, too: the next generation connects anew."""


class Forged(ChannelLost):
    """What arrived is not what the other end has sent. Nothing of it was used."""


class OutChannel:
    """To one downstream attempt. Nothing here blocks: what the socket does not take waits, bounded by the credits. What
    is sent before both ends have proved themselves waits, too.
    """

    def __init__(self, connected: socket.socket, handshake: Connecting) -> None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BUFFER)
        self.socket, self.credits = connected, CREDITS
        self.waiting: deque[memoryview] = deque()
        self._handshake: Connecting | None = handshake
        self._seals: Seals | None = None
        self._early: list[memoryview] = []  # parts of frames that cannot be sealed yet
        self._given = bytearray()  # a sealed credit, as far as it has arrived
        self._shake_hands(handshake)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, kind: int, *, data: Any = b"", checkpoint_id: int = 0) -> None:
        view = memoryview(data).cast("B")
        if view.nbytes > FRAME_BYTES_MOST:
            raise ValueError(f"a batch of {view.nbytes:,} bytes is too large for a channel: make smaller batches")
        self._add(memoryview(FRAME.pack(kind, view.nbytes, checkpoint_id)))
        if view.nbytes:
            self._add(view)
        self.credits -= kind == ROWS
        self.flush()

    def _add(self, part: memoryview) -> None:
        if self._handshake is not None:
            self._early.append(part)
            return
        self.waiting.append(part)
        if self._seals is not None:
            self.waiting.append(memoryview(self._seals.sending.tag(part)))

    def _shake_hands(self, handshake: Connecting) -> None:
        try:
            if not handshake.advance():
                return
        except Gone as error:
            raise ChannelLost("the receiver is gone") from error
        except Unproved as error:
            raise Forged(str(error)) from error
        self._handshake, self._seals = None, handshake.seals
        for part in self._early:
            self._add(part)
        self._early.clear()

    def flush(self) -> None:
        try:
            while self.waiting:
                self._sent(self.socket.sendmsg(list(islice(self.waiting, 16))))
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
        if self._handshake is not None:
            self._shake_hands(self._handshake)
            return 0
        try:
            given = self.socket.recv(CREDITS_READ)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelLost("the receiver is gone") from error
        if not given:
            raise ChannelLost("the receiver has closed the channel")
        count = len(given) if self._seals is None else self._count(given, self._seals)
        self.credits += count
        return count

    def _count(self, given: bytes, seals: Seals) -> int:
        self._given += given
        size, count = len(CREDIT) + TAG_BYTES, 0
        while len(self._given) >= size:
            _check(seals, self._given[len(CREDIT) : size], self._given[: len(CREDIT)])
            del self._given[:size]
            count += 1
        return count


class InChannel:
    """From one upstream attempt: `receive` returns a whole frame, or None if there is none yet."""

    def __init__(self, connected: socket.socket, *, sender: int, seals: Seals | None = None) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self.socket, self.sender, self.ended = connected, sender, False
        self._seals, self._tag = seals, TAG_BYTES if seals is not None else 0  # bytes behind each part
        self._head = bytearray(FRAME.size + self._tag)
        self._frame: tuple[int, int, int] | None = None  # the header, once it is whole
        self._into = memoryview(self._head)
        self._body = bytearray()

    @classmethod
    def admitted(cls, admitted: Admitted) -> InChannel:
        return cls(admitted.socket, sender=admitted.introduced[1], seals=admitted.seals)

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> tuple[int, int, bytearray | memoryview] | None:
        """(kind, checkpoint id, message)."""
        while True:
            if self._into and not self._fill():
                return None
            if self._frame is None:
                self._frame = self._header()
                size = self._frame[1]
                self._body = bytearray(size + self._tag if size else 0)  # a new one: the batch is a view of it
                self._into = memoryview(self._body)
                continue
            kind, size, checkpoint_id = self._frame
            self._frame, self._into = None, memoryview(self._head)
            if self._seals is None or not size:
                return kind, checkpoint_id, self._body
            body = memoryview(self._body)
            _check(self._seals, body[size:], body[:size])
            return kind, checkpoint_id, body[:size]

    def _header(self) -> tuple[int, int, int]:
        head = memoryview(self._head)
        if self._seals is not None:
            _check(self._seals, head[FRAME.size :], head[: FRAME.size])
        kind, size, checkpoint_id = FRAME.unpack_from(head)
        if kind >= len(KINDS) or size > FRAME_BYTES_MOST:
            raise Forged(f"a frame of kind {kind} with {size:,} bytes, which no attempt sends")
        return kind, size, checkpoint_id

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
        if self._seals is None:
            given = CREDIT * count
        else:
            given = b"".join(CREDIT + self._seals.sending.tag(CREDIT) for _ in range(count))
        try:
            self.socket.send(given)
        except OSError as error:
            raise ChannelLost("the sender is gone") from error


def _check(seals: Seals, tag: bytearray | memoryview, part: bytearray | memoryview) -> None:
    try:
        seals.receiving.check(tag, part)
    except Unproved as error:
        raise Forged(str(error)) from error


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


def event_of(code: int, number: int, message: bytearray | memoryview) -> tuple[str, Any]:
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
