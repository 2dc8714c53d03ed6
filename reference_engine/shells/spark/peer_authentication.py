"""Both ends of a new connection prove that they belong to one job, before anything else is read from it.

Over TCP the accepting end sends a challenge; the connecting end answers with a nonce of its own, its introduction, and
an HMAC over all of it; the accepting end answers with an HMAC, too. Both know the job's secret, which never travels.
Each HMAC covers the role, the destination and both random numbers: none is of use on another connection, towards
another destination or in the other direction. Every later message is sealed with keys that only this pair can derive.

Over a UNIX socket the kernel names the user at the other end, and no third process can read, change or replay
anything: the users are compared, the connecting end proves the secret unasked (no round trip), nothing is sealed.

Messages have fixed sizes, no more than one of them is read, and none is unpickled.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
from secrets import token_bytes
from typing import Final, NamedTuple

MAGIC: Final = b"SPK1"  # the version of this protocol
NONCE_BYTES: Final = 32
DIGEST: Final = "sha256"
PROOF_BYTES: Final = 32
TAG_BYTES: Final = 16
SECRET_BYTES: Final = 32
INTRODUCTION: Final = struct.Struct("<QI")  # generation and actor id of the connecting end
DESTINATION: Final = struct.Struct("<I")  # actor id of the accepting end
CHALLENGE_BYTES: Final = len(MAGIC) + NONCE_BYTES
ANSWER_BYTES: Final = len(MAGIC) + NONCE_BYTES + INTRODUCTION.size + PROOF_BYTES
NUMBER: Final = struct.Struct("<Q")
PEER: Final = struct.Struct("3i")  # pid, user, group


class Unproved(Exception):
    """The other end has not proved that it belongs to this job, or a message of it is not the one that was sent."""


class Gone(Unproved):
    """The other end has ended or broken the connection: it may have died."""


def new_secret() -> bytes:
    return token_bytes(SECRET_BYTES)


class Seal:
    """Tags for one direction of a connection. They are numbered: no message can be changed, omitted or repeated."""

    __slots__ = ("_keyed", "_number")

    def __init__(self, key: bytes) -> None:
        self._keyed, self._number = hmac.new(key, digestmod=DIGEST), 0

    def tag(self, part: bytes | bytearray | memoryview) -> bytes:
        made = self._keyed.copy()
        made.update(NUMBER.pack(self._number))
        made.update(part)
        self._number += 1
        return made.digest()[:TAG_BYTES]

    def check(self, tag: bytes | bytearray | memoryview, part: bytes | bytearray | memoryview) -> None:
        if not hmac.compare_digest(self.tag(part), tag):
            raise Unproved("a message was changed, repeated or made up")


class Seals(NamedTuple):
    """Of one end of a connection."""

    sending: Seal
    receiving: Seal


class Transcript(NamedTuple):
    """All that both ends of a connection must agree on."""

    destination: int
    challenge: bytes  # empty over a UNIX socket
    nonce: bytes
    introduction: bytes

    def proof(self, secret: bytes, role: bytes) -> bytes:
        text = b"".join(
            (MAGIC, role, DESTINATION.pack(self.destination), self.nonce, self.introduction, self.challenge)
        )
        return hmac.digest(secret, text, DIGEST)

    def seals(self, secret: bytes, *, sending: bytes, receiving: bytes) -> Seals:
        return Seals(Seal(self.proof(secret, b"key " + sending)), Seal(self.proof(secret, b"key " + receiving)))


CONNECTING: Final = b"connecting"
ACCEPTING: Final = b"accepting "


def is_local(connected: socket.socket) -> bool:
    return connected.family == socket.AF_UNIX


def check_user(connected: socket.socket) -> None:
    """Raises Unproved if the process at the other end of this UNIX socket is another user's."""
    user = PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[1]
    if user != os.getuid():
        raise Unproved(f"it is a process of another user ({user})")


class _Handshake:
    """Reads exactly what the protocol expects next; everything after it stays in the socket."""

    def __init__(self, connected: socket.socket, secret: bytes) -> None:
        if len(secret) < SECRET_BYTES:
            raise ValueError("a job's secret has 32 bytes")
        connected.setblocking(False)
        self.socket, self.secret = connected, secret
        self.seals: Seals | None = None
        self._read = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def _receive(self, size: int) -> bytes | None:
        """The next message of this size; None if it has not arrived yet."""
        try:
            while len(self._read) < size:
                chunk = self.socket.recv(size - len(self._read))
                if not chunk:
                    raise Gone("it ended the connection before it had proved anything")
                self._read += chunk
        except BlockingIOError:
            return None
        except OSError as error:
            raise Gone("it broke the connection before it had proved anything") from error
        message = bytes(self._read)
        self._read.clear()
        if size != PROOF_BYTES and not message.startswith(MAGIC):
            raise Unproved("it does not speak the protocol of this version of sinkproof")
        return message

    def _send(self, message: bytes) -> None:
        """A new connection takes these few bytes at once."""
        try:
            if self.socket.send(message) == len(message):
                return
        except OSError as error:
            raise Gone("it broke the connection before it had proved anything") from error
        raise Unproved("it does not read what it is sent")


class Accepting(_Handshake):
    """The accepting end. Raises Unproved. `introduced`: generation and actor id of the other end, once it is proved."""

    def __init__(self, connected: socket.socket, secret: bytes, *, destination: int) -> None:
        super().__init__(connected, secret)
        self.destination = destination
        self.challenge, self.introduced = b"", (0, 0)
        if is_local(connected):
            check_user(connected)
        else:
            self.challenge = token_bytes(NONCE_BYTES)
            self._send(MAGIC + self.challenge)

    def advance(self) -> bool:
        """Reads what has arrived; whether the other end is proved to belong to the job."""
        answer = self._receive(ANSWER_BYTES)
        if answer is None:
            return False
        at = len(MAGIC) + NONCE_BYTES
        introduction, proof = answer[at : at + INTRODUCTION.size], answer[at + INTRODUCTION.size :]
        transcript = Transcript(self.destination, self.challenge, answer[len(MAGIC) : at], introduction)
        if not hmac.compare_digest(transcript.proof(self.secret, CONNECTING), proof):
            raise Unproved("it does not know the secret of this job")
        if self.challenge:
            self._send(transcript.proof(self.secret, ACCEPTING))
            self.seals = transcript.seals(self.secret, sending=ACCEPTING, receiving=CONNECTING)
        self.introduced = INTRODUCTION.unpack(introduction)
        return True


class Connecting(_Handshake):
    """The connecting end. Raises Unproved. Nothing but the proof may be sent before `done`."""

    def __init__(
        self, connected: socket.socket, secret: bytes, *, destination: int, introduced: tuple[int, int] = (0, 0)
    ) -> None:
        super().__init__(connected, secret)
        self.destination, self.introduction = destination, INTRODUCTION.pack(*introduced)
        self.done = False
        self._transcript: Transcript | None = None
        if is_local(connected):
            check_user(connected)
            self._answer(b"")
            self.done = True

    def _answer(self, challenge: bytes) -> Transcript:
        made = Transcript(self.destination, challenge, token_bytes(NONCE_BYTES), self.introduction)
        self._send(MAGIC + made.nonce + made.introduction + made.proof(self.secret, CONNECTING))
        return made

    def advance(self) -> bool:
        """Reads what has arrived; whether the other end is proved to belong to the job."""
        if self._transcript is None and not self.done:
            challenge = self._receive(CHALLENGE_BYTES)
            if challenge is not None:
                self._transcript = self._answer(challenge[len(MAGIC) :])
        if self._transcript is not None and not self.done:
            proof = self._receive(PROOF_BYTES)
            if proof is not None:
                self._finish(self._transcript, proof)
        return self.done

    def _finish(self, transcript: Transcript, proof: bytes) -> None:
        if not hmac.compare_digest(transcript.proof(self.secret, ACCEPTING), proof):
            raise Unproved("it does not know the secret of this job")
        self.seals = transcript.seals(self.secret, sending=CONNECTING, receiving=ACCEPTING)
        self.done = True
