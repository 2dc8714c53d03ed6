"""A request that is held goes on when another program sends the same bytes, and once."""

from __future__ import annotations

import select
import socket
from pathlib import Path

import pytest

from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.waiting_request import WaitingRequest
from sinkproof.chaos.system_calls.watched_program import watched

from ..support.watched_programs import python, run
from .test_system_calls import needs_watch

SECONDS = 60.0


def test_it_goes_on_when_the_same_bytes_are_sent_and_once() -> None:
    held, went_on = WaitingRequest(), list[str]()
    held.hold(b"INSERT", go_on=lambda: went_on.append("INSERT"))
    assert held.waits
    held.meet(b"BEGIN")
    assert held.waits
    assert [] == went_on
    held.meet(b"INSERT")
    held.meet(b"INSERT")
    assert ["INSERT"] == went_on
    assert not held.waits


def test_what_cannot_be_read_meets_nothing() -> None:
    held = WaitingRequest()
    held.hold(b"", go_on=lambda: None)
    assert not held.waits


def test_one_that_meets_anything_goes_on_by_itself_only_if_nothing_was_sent() -> None:
    held, went_on = WaitingRequest(), list[str]()

    def go_on() -> None:
        went_on.append("went on")

    held.hold(None, go_on=go_on)
    held.meet(b"whatever")
    assert ["went on"] == went_on
    held.hold(None, go_on=go_on)
    held.forget(lambda: None)
    assert held.waits
    held.forget(go_on)
    held.meet(b"its own next request")
    assert ["went on"] == went_on


@needs_watch
@pytest.mark.parametrize(("act", "sent"), [(Act.OVERLAP, b"first"), (Act.MEET, b"other")])
def test_both_programs_go_on_and_the_owner_does_nothing(act: Act, sent: bytes, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ForkServer() as server:
        held = WaitingRequest()
        program = f"socket.create_connection({listener.getsockname()}).send(%r)"
        first, second = (python(program % text) for text in (b"first", sent))
        place = ("syscall(sendto socket)", 1, act)
        variables = {"FOLDER": str(tmp_path)}
        with watched(server, first, tmp_path, variables=variables, armed=place, held=held) as (_, watch):
            assert select.select([watch.struck], [], [], SECONDS)[0]
            assert act is watch.take_strike()
            assert held.waits
            with watched(server, second, tmp_path, variables=variables, held=held):
                arrived = [text_from(listener), text_from(listener)]
    assert sorted([b"first", sent]) == sorted(arrived)


def text_from(listener: socket.socket) -> bytes:
    listener.settimeout(SECONDS)
    with listener.accept()[0] as connection, connection.makefile("rb") as stream:
        return stream.read()


@needs_watch
@pytest.mark.timeout(30)
def test_a_program_that_nothing_has_met_sends_on(tmp_path: Path) -> None:
    program = python("ours, theirs = socket.socketpair()\nours.send(b'one')\nours.send(b'two')")
    with ForkServer() as server:
        status, points, struck, _ = run(server, tmp_path, program, ("syscall(sendto socket)", 1, Act.MEET))
    assert (0, [Act.MEET], 2) == (status, struck, len(points))
