"""Strangers at every listening socket of a job: nothing is executed or lost, and what they send is not even kept."""

from __future__ import annotations

import os
import pickle
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.reference_engine.shells.spark import guarded_entrance, peer_authentication
from sinkproof.reference_engine.shells.spark.control_messages import (
    LENGTH,
    ControlConnection,
    address_of,
    connect,
    listen,
)
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.guarded_entrance import PENDING_MOST
from sinkproof.reference_engine.shells.spark.peer_authentication import (
    ANSWER_BYTES,
    CHALLENGE_BYTES,
    MAGIC,
    Accepting,
    Connecting,
    Unproved,
)
from tests.support.entrance_under_test import ACTOR, SECONDS, SECRET, Door

OTHER_SECRET = bytes(32)
NETWORKS = ("unix", "tcp")
GARBAGE_BYTES = 8 << 20
MEMORY_MOST = 4 << 20


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Callable[[str], Door]]:
    with ExitStack() as stack:

        def make(network: str) -> Door:
            door = Door(network, tmp_path)
            stack.callback(door.close)
            return door

        yield make


@pytest.fixture(params=NETWORKS)
def door(request: pytest.FixtureRequest, doors: Callable[[str], Door]) -> Door:
    return doors(request.param)


def ends(connected: socket.socket) -> bool:
    """Whether the other end closes it, after anything that it may still send."""
    try:
        while connected.recv(4096):
            continue
    except ConnectionError:
        return True
    return True


class Bomb:
    """What a pickle of a stranger could do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


# -- members ---------------------------------------------------------------------------------------


def test_two_processes_with_the_secret_meet_and_know_each_other(door: Door) -> None:
    ours, admitted = door.guest()
    assert (7, 2) == admitted.introduced
    assert (ours.seals is None) == (admitted.seals is None) == isinstance(door.address, str)
    one, other = ControlConnection(ours.socket, seals=ours.seals), ControlConnection.admitted(admitted, silence=60)
    for message in (("one", b"x" * 1000), ("two", None)):
        one.send(*message)
        other.send("back", *message)
    assert [("one", b"x" * 1000), ("two", None)] == messages(other, 2)
    assert [("back", "one", b"x" * 1000), ("back", "two", None)] == messages(one, 2)
    assert [] == door.refused
    one.close()


def messages(connection: ControlConnection, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        assert select.select([connection], [], [], SECONDS)[0]
        got = connection.receive()
        assert got is not None, connection.refusal
        found += got
    return found


# -- strangers -------------------------------------------------------------------------------------


def test_garbage_is_refused_unread_and_executes_nothing(door: Door, tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "executed"))
    for garbage in (
        b"\0" * ANSWER_BYTES,
        b"GET / HTTP/1.1\r\nHost: somewhere.example\r\nAccept: text/html,application/xhtml+xml\r\n\r\n",
        LENGTH.pack(len(bomb)) + bomb + bytes(ANSWER_BYTES),
        MAGIC + bomb + bytes(ANSWER_BYTES),
        MAGIC + bytes(range(256)),
    ):
        refused = len(door.refused)
        with door.raw() as stranger:
            stranger.sendall(garbage)
            door.until(lambda before=refused: len(door.refused) > before)
            assert ends(stranger)
        assert refused + 1 == len(door.refused)
    assert [] == door.admitted
    assert not (tmp_path / "executed").exists()
    door.guest()


@pytest.mark.parametrize(
    ("secret", "destination"), [(OTHER_SECRET, ACTOR), (SECRET, ACTOR + 1)], ids=["wrong secret", "wrong actor"]
)
def test_a_wrong_secret_and_a_proof_for_another_actor_are_refused_in_one_line(
    door: Door, secret: bytes, destination: int
) -> None:
    handshake, connected = connect(door.address, secret, destination=destination)
    with connected:
        door.until(lambda: _advanced(handshake) and door.refused)
        [line] = door.refused
        assert ("refused", ACTOR) == (line["what"], line["destination"])
        assert "secret" in line["why"]
        assert [] == door.admitted
        connected.settimeout(SECONDS)
        assert ends(connected)


def _advanced(handshake: Connecting) -> bool:
    with suppress(Unproved):
        handshake.advance()
    return True


def test_an_end_in_the_middle_of_the_proof_is_a_line_and_nothing_else(door: Door) -> None:
    with door.raw() as stranger:
        stranger.sendall(MAGIC + bytes(10))
        door.until(lambda: door.entrance.pending)
    door.until(lambda: door.refused)
    assert {} == door.entrance.pending
    door.guest()


def test_a_connection_that_proves_nothing_in_time_is_closed(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_entrance, "SECONDS", 0.01)
    with door.raw() as stranger:
        door.until(lambda: door.refused)
        assert ends(stranger)
    assert "proved nothing" in door.refused[0]["why"]


def test_a_proof_that_came_in_time_counts_although_the_loop_was_busy(doors: Callable[[str], Door]) -> None:
    door = doors("tcp")
    handshake, _ = connect(door.address, SECRET, destination=ACTOR, introduced=(7, 2))
    door.guests.append(handshake)
    door.until(lambda: door.entrance.pending)
    assert not handshake.advance()  # it answers the challenge
    ((descriptor, (accepting, _)),) = door.entrance.pending.items()
    door.entrance.pending[descriptor] = accepting, Deadline(0.0)
    door.entrance.drop_late()
    assert [] == door.refused
    door.until(lambda: handshake.advance() and door.admitted)


def test_a_flood_of_silent_connections_is_bounded_and_a_member_still_comes_in(door: Door) -> None:
    with ExitStack() as stack:
        for _ in range(3 * PENDING_MOST):
            stack.enter_context(door.raw())
            door.turn()
        door.until(lambda: len(door.refused) >= guarded_entrance.RECORDED_MOST)
        assert PENDING_MOST >= len(door.entrance.pending)
        door.guest()
    assert guarded_entrance.RECORDED_MOST == len(door.refused)


def test_what_a_stranger_sends_on_and_on_takes_no_memory(door: Door) -> None:
    before = memory()
    with door.raw() as stranger:
        stranger.setblocking(False)
        sent = 0
        while sent < GARBAGE_BYTES:
            try:
                sent += stranger.send(b"x" * (1 << 16))
            except BlockingIOError:
                door.turn()
            except ConnectionError:
                break
        door.until(lambda: door.refused)
    assert MEMORY_MOST > memory() - before
    assert 1 == len(door.refused)


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_another_user_at_a_unix_socket_is_refused(
    doors: Callable[[str], Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    door = doors("unix")
    monkeypatch.setattr(peer_authentication.os, "getuid", lambda: 12_345)
    with door.raw():
        door.until(lambda: door.refused)
        assert "another user" in door.refused[0]["why"]
    with pytest.raises(ConnectionError, match="another user"):
        connect(door.address, SECRET, destination=ACTOR)


# -- the connecting end is proved to nothing but a member ------------------------------------------


@contextmanager
def false_server() -> Iterator[tuple[Connecting, socket.socket]]:
    """A member that has connected to a stranger."""
    with ExitStack() as stack:
        listening = stack.enter_context(listen("tcp", ""))
        handshake, connected = connect(address_of(listening), SECRET, destination=ACTOR)
        stack.enter_context(connected)
        accepted = stack.enter_context(listening.accept()[0])
        accepted.settimeout(SECONDS)
        yield handshake, accepted


def step(handshake: Connecting) -> bool:
    assert select.select([handshake], [], [], SECONDS)[0]
    return handshake.advance()


@pytest.mark.parametrize("proof", ["of zeros", "its own, sent back", "of another secret"])
def test_a_server_without_the_secret_learns_nothing_and_is_left(proof: str) -> None:
    with false_server() as (handshake, server):
        server.sendall(MAGIC + bytes(CHALLENGE_BYTES - len(MAGIC)))
        assert not step(handshake)
        answer = server.recv(ANSWER_BYTES, socket.MSG_WAITALL)
        proofs = {
            "of zeros": bytes(32),
            "its own, sent back": answer[-32:],
            "of another secret": peer_authentication.Transcript(ACTOR, bytes(32), answer[4:36], answer[36:48]).proof(
                OTHER_SECRET, peer_authentication.ACCEPTING
            ),
        }
        server.sendall(proofs[proof])
        with pytest.raises(Unproved, match="secret"):
            step(handshake)
        assert SECRET not in answer


def test_a_proof_that_was_listened_to_is_refused_when_it_comes_again(doors: Callable[[str], Door]) -> None:
    """Over TCP, where others can listen."""
    door = doors("tcp")
    with door.raw() as member:
        door.turn(seconds=SECONDS)
        challenge = member.recv(CHALLENGE_BYTES, socket.MSG_WAITALL)
        transcript = peer_authentication.Transcript(ACTOR, challenge[len(MAGIC) :], bytes(32), bytes(12))
        answer = MAGIC + bytes(32 + 12) + transcript.proof(SECRET, peer_authentication.CONNECTING)
        member.sendall(answer)
        door.until(lambda: door.admitted)
    with door.raw() as stranger:
        stranger.sendall(answer)
        door.until(lambda: door.refused)
        assert ends(stranger)
    assert 1 == len(door.admitted)


def test_the_secret_is_in_no_description_of_a_run() -> None:
    run, other = (SparkRun(recipe="a:b", arguments={}, folder=Path("run")) for _ in range(2))
    assert 32 == len(run.secret)
    assert run.secret != other.secret
    assert "secret" not in repr(run)


def test_a_handshake_ends_exactly_at_its_last_byte() -> None:
    """What follows it belongs to the channel."""
    ours, its = socket.socketpair()
    with ours, its:
        Connecting(ours, SECRET, destination=ACTOR)
        ours.sendall(b"first")
        accepting = Accepting(its, SECRET, destination=ACTOR)
        assert accepting.advance()
        assert b"first" == its.recv(100)
