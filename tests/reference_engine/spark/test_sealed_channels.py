"""Connections that were proved, and something that sits in between: what it changes is neither used nor unpickled."""

from __future__ import annotations

import os
import pickle
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reference_engine.shells.spark import peer_authentication
from sinkproof.reference_engine.shells.spark.channels import (
    BARRIER,
    CREDITS,
    FRAME,
    ROWS,
    Forged,
    InChannel,
    OutChannel,
)
from sinkproof.reference_engine.shells.spark.control_messages import (
    LENGTH,
    MESSAGE_BYTES_MOST,
    ControlConnection,
    address_of,
    control_connection,
    listen,
)
from sinkproof.reference_engine.shells.spark.peer_authentication import TAG_BYTES, Accepting, Connecting, Seals

SECRET = bytes(range(32))
ACTOR = 3
SECONDS = 300.0
MEMORY_MOST = 4 << 20


class Bomb:
    """What a pickle of a stranger could do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def seals() -> tuple[Seals, Seals]:
    """(of the connecting end, of the accepting end)"""
    transcript = peer_authentication.Transcript(ACTOR, bytes(32), bytes(32), bytes(12))
    one, other = peer_authentication.CONNECTING, peer_authentication.ACCEPTING
    return (
        transcript.seals(SECRET, sending=one, receiving=other),
        transcript.seals(SECRET, sending=other, receiving=one),
    )


def sealed(parts: list[bytes], seals: Seals) -> list[bytes]:
    return [part + seals.sending.tag(part) for part in parts]


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": lambda parts: [parts[0], bytes([parts[1][0] ^ 1]) + parts[1][1:], *parts[2:]],
    "repeated": lambda parts: [*parts[:2], *parts[:2], *parts[2:]],
    "left out": lambda parts: parts[2:],
    "swapped": lambda parts: [*parts[2:4], *parts[:2]],
    "made up": lambda parts: [b"\x01" + parts[0][1:], *parts[1:]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_control_messages_that_were_tampered_with_are_not_unpickled(
    change: str, seals: tuple[Seals, Seals], tmp_path: Path
) -> None:
    ours, its = socket.socketpair()
    with ours, its:
        data = [pickle.dumps((Bomb(tmp_path / name),)) for name in ("one", "two")]
        parts = sealed([part for each in data for part in (LENGTH.pack(len(each)), each)], seals[0])
        ours.sendall(b"".join(CHANGES[change](parts)))
        into = ControlConnection(its, seals=seals[1])
        assert into.receive() is None
        assert "made up" in into.refusal
        done = {path.name for path in tmp_path.iterdir()}
        assert done <= ({"one"} if change == "repeated" else set())


def test_a_message_that_is_too_long_is_refused_by_its_announcement(seals: tuple[Seals, Seals]) -> None:
    for with_seals in (True, False):
        ours, its = socket.socketpair()
        with ours, its:
            length = LENGTH.pack(MESSAGE_BYTES_MOST + 1)
            ours.sendall(sealed([length], seals[0])[0] if with_seals else length)
            into = ControlConnection(its, seals=seals[1] if with_seals else None)
            assert into.receive() is None
            assert "announced" in into.refusal


@pytest.mark.parametrize("change", CHANGES)
def test_frames_that_were_tampered_with_end_the_channel(change: str, seals: tuple[Seals, Seals]) -> None:
    ours, its = socket.socketpair()
    with ours, its:
        parts = sealed([FRAME.pack(ROWS, 3, 0), b"one", FRAME.pack(ROWS, 3, 0), b"two"], seals[0])
        ours.sendall(b"".join(CHANGES[change](parts)))
        into = InChannel(its, sender=2, seals=seals[1])
        found: list[bytes] = []
        with pytest.raises(Forged):
            read_all(into, found)
        assert found == ([b"one"] if change == "repeated" else [])


def read_all(into: InChannel, found: list[bytes]) -> None:
    while (frame := into.receive()) is not None:
        found.append(bytes(frame[2]))


def test_no_memory_is_allocated_for_a_length_that_was_not_proved(seals: tuple[Seals, Seals]) -> None:
    before = memory()
    for its_seals, head in (
        (seals[1], FRAME.pack(ROWS, 1 << 29, 0) + bytes(TAG_BYTES)),
        (None, FRAME.pack(ROWS, (1 << 30) + 1, 0)),
        (None, FRAME.pack(200, 5, 0)),
    ):
        ours, its = socket.socketpair()
        with ours, its:
            ours.sendall(head)
            with pytest.raises(Forged):
                InChannel(its, sender=2, seals=its_seals).receive()
    assert MEMORY_MOST > memory() - before


@pytest.fixture
def over_tcp() -> Iterator[tuple[OutChannel, InChannel]]:
    """Rows and a barrier are on their way before either end has proved anything."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ours = stack.enter_context(socket.create_connection(listening.getsockname()))
        its = stack.enter_context(listening.accept()[0])
        out = OutChannel(ours, Connecting(ours, SECRET, destination=ACTOR, introduced=(7, 2)))
        out.send(ROWS, data=b"rows")
        out.send(BARRIER, checkpoint_id=4)
        accepting = Accepting(its, SECRET, destination=ACTOR)
        assert wait_for(ours)
        assert 0 == out.take_credits()
        assert wait_for(its)
        assert accepting.advance()
        assert wait_for(ours)
        assert 0 == out.take_credits()
        out.flush()
        yield out, InChannel(its, sender=2, seals=accepting.seals)


def wait_for(connected: socket.socket) -> bool:
    return bool(select.select([connected], [], [], SECONDS)[0])


def test_what_was_sent_before_the_proof_arrives_after_it(over_tcp: tuple[OutChannel, InChannel]) -> None:
    out, into = over_tcp
    found: list[Any] = []
    while len(found) < 2:
        assert wait_for(into.socket)
        while (frame := into.receive()) is not None:
            found.append((frame[0], frame[1], bytes(frame[2])))
    assert [(ROWS, 0, b"rows"), (BARRIER, 4, b"")] == found
    assert CREDITS - 1 == out.credits
    into.give_credits(1)
    assert wait_for(out.socket)
    assert 1 == out.take_credits()
    assert CREDITS == out.credits


def test_credits_that_were_made_up_end_the_channel(over_tcp: tuple[OutChannel, InChannel]) -> None:
    out, into = over_tcp
    into.socket.send(b"c" + bytes(TAG_BYTES))
    assert wait_for(out.socket)
    with pytest.raises(Forged):
        out.take_credits()
    assert CREDITS - 1 == out.credits


def test_a_coordinator_that_dies_during_the_proof_is_not_the_end_of_the_job() -> None:
    """Its successor answers at the same address; only where nothing listens is the job over."""
    with listen("tcp", "") as listening:
        address = address_of(listening)
        dies = threading.Thread(target=lambda: listening.accept()[0].close())
        dies.start()
        with pytest.raises(ConnectionResetError):
            control_connection(address, SECRET, destination=0)
        dies.join()
    with pytest.raises(ConnectionRefusedError):
        control_connection(address, SECRET, destination=0)
