"""Channels between attempts: frames arrive whole however the socket splits them, and credits bound what waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sinkproof.reference_engine.dataflow.subtask import UNDRAINED
from sinkproof.reference_engine.shells.spark.channels import (
    BARRIER,
    CREDITS,
    END,
    FRAME,
    ROWS,
    ChannelLost,
    InChannel,
    OutChannel,
    event_of,
    frame_of,
)
from sinkproof.reference_engine.shells.spark.peer_authentication import Accepting, Connecting

SECRET = bytes(32)
Pair = tuple[OutChannel, InChannel]
Frame = tuple[int, int, bytes]
BATCH = bytes(range(256)) * 4096  # one megabyte: no socket takes it at once


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        ours, its = map(stack.enter_context, socket.socketpair())
        out = OutChannel(ours, Connecting(ours, SECRET, destination=5, introduced=(700_003, 2)))
        accepting = Accepting(its, SECRET, destination=5)
        assert accepting.advance()
        assert (700_003, 2) == accepting.introduced
        yield out, InChannel(its, sender=2)


def received(channel: InChannel) -> list[Frame]:
    """Every whole frame that has arrived."""
    found = []
    while (frame := channel.receive()) is not None:
        found.append((frame[0], frame[1], bytes(frame[2])))
    return found


def test_frames_arrive_in_order_and_barriers_take_no_credit(pair: Pair) -> None:
    out, into = pair
    out.send(ROWS, data=b"one")
    out.send(BARRIER, checkpoint_id=7)
    out.send(ROWS, data=b"two")
    out.send(END)
    assert CREDITS - 2 == out.credits
    assert [(ROWS, 0, b"one"), (BARRIER, 7, b""), (ROWS, 0, b"two"), (END, 0, b"")] == received(into)


def test_a_frame_in_pieces_is_whole_only_with_its_last_byte() -> None:
    ours, its = socket.socketpair()
    with ours, its:
        into = InChannel(its, sender=1)
        message = FRAME.pack(ROWS, 5, 0) + b"first" + FRAME.pack(BARRIER, 0, 9)
        for at in range(len(message) - 1):
            ours.send(message[at : at + 1])
            expected = [(ROWS, 0, b"first")] if at == FRAME.size + 4 else []
            assert expected == received(into)
        ours.send(message[-1:])
        assert [(BARRIER, 9, b"")] == received(into)


def test_what_the_socket_does_not_take_waits_and_nothing_overtakes_it(pair: Pair) -> None:
    out, into = pair
    for number in range(CREDITS):
        out.send(ROWS, data=bytes([number]) + BATCH)
    out.send(BARRIER, checkpoint_id=3)
    assert 0 == out.credits
    assert len(BATCH) < sum(part.nbytes for part in out.waiting) < CREDITS * (len(BATCH) + 2 * FRAME.size)
    found: list[Frame] = []
    while out.waiting:
        found += received(into)
        out.flush()
    found += received(into)
    assert [*((ROWS, 0, number) for number in range(CREDITS)), (BARRIER, 3, None)] == [
        (kind, checkpoint_id, data[0] if data else None) for kind, checkpoint_id, data in found
    ]
    assert {BATCH} == {data[1:] for kind, _, data in found if kind == ROWS}


@pytest.mark.row("S15")
@pytest.mark.parametrize(("heeds_credits", "batches_waiting"), [(True, CREDITS), (False, 50)])
def test_only_credits_bound_what_waits_for_a_slow_receiver(
    heeds_credits: bool, batches_waiting: int, pair: Pair
) -> None:
    out, into = pair
    sent = 0
    for _ in range(50):
        if out.credits > 0 or not heeds_credits:
            out.send(ROWS, data=BATCH)
            sent += 1
    assert batches_waiting == sent
    assert sum(part.nbytes for part in out.waiting) > (batches_waiting - 3) * len(BATCH)
    received(into)
    into.give_credits(1)
    out.take_credits()
    assert (1 if heeds_credits else CREDITS + 1 - 50) == out.credits


def test_no_credit_yet_is_no_error(pair: Pair) -> None:
    out, _ = pair
    out.take_credits()
    assert CREDITS == out.credits


def test_a_peer_that_died_in_the_middle_of_a_frame_is_lost_not_an_end_of_rows() -> None:
    ours, its = socket.socketpair()
    with its:
        into = InChannel(its, sender=1)
        ours.sendall(FRAME.pack(ROWS, 1000, 0) + b"torn")
        assert into.receive() is None
        ours.close()
        with pytest.raises(ChannelLost, match="the sender"):
            into.receive()


def test_a_receiver_that_died_is_lost_to_its_sender(pair: Pair) -> None:
    out, into = pair
    into.socket.close()
    with pytest.raises(ChannelLost, match="the receiver"):
        out.send(ROWS, data=BATCH)
    with pytest.raises(ChannelLost, match="the receiver"):
        out.take_credits()


def test_a_sender_that_died_gets_no_credit(pair: Pair) -> None:
    out, into = pair
    out.socket.close()
    with pytest.raises(ChannelLost, match="the sender"):
        into.give_credits(1)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("barrier", 7),
        ("urgent", 7),
        ("timed_barrier", (7, 1234.5)),
        ("watermark", -1.0),
        ("watermark", 1e15),
        ("idle", None),
        ("end", None),
        ("end", UNDRAINED),
    ],
)
def test_what_is_no_batch_arrives_as_it_was_sent(pair: Pair, kind: str, payload: Any) -> None:
    out, into = pair
    code, number, message = frame_of(kind, payload)
    out.send(code, data=message, checkpoint_id=number)
    [(code, number, message)] = received(into)
    assert (kind, payload) == event_of(code, number, bytearray(message))
