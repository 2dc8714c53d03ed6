"""The proxy that understands messages, between a client and a server that speak as Kafka frames do."""

from __future__ import annotations

import multiprocessing
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import Queue

import pytest

from sinkproof.chaos.messages.message_points import BROKER, MessageFaults, places
from sinkproof.chaos.messages.message_proxy import HOST, main
from sinkproof.chaos.schedule import Fault
from sinkproof.chaos.services.ports import free_ports

END_TXN = 26
METADATA = 3


class Server:
    """Answers each request with its number, and remembers which it has carried out."""

    def __init__(self) -> None:
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.carried_out: Queue[int] = Queue()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection:
            while head := connection.recv(4, socket.MSG_WAITALL):
                body = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                (number,) = struct.unpack_from(">i", body, 4)
                self.carried_out.put(number)
                connection.sendall(struct.pack(">ii", 4, number))


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=30)

    def ask(self, kind: int, number: int) -> int | None:
        """The number that is answered; None: the connection is gone."""
        body = struct.pack(">hhi", kind, 0, number)
        try:
            self.socket.sendall(struct.pack(">i", len(body)) + body)
            answer = self.socket.recv(8, socket.MSG_WAITALL)
        except ConnectionError:
            return None
        return struct.unpack(">ii", answer)[1] if answer else None


Connect = Callable[[], Client]


@pytest.fixture
def connect(proxy: tuple[MessageFaults, int]) -> Iterator[Connect]:
    """A new client of the proxy."""
    with ExitStack() as open_sockets:

        def made() -> Client:
            client = Client(proxy[1])
            open_sockets.enter_context(client.socket)
            return client

        yield made


@pytest.fixture
def faults(proxy: tuple[MessageFaults, int]) -> MessageFaults:
    return proxy[0]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.listener.close()


@pytest.fixture
def proxy(server: Server) -> Iterator[tuple[MessageFaults, int]]:
    """The way to arm it, and the port where clients come in."""
    control, front = free_ports(2, taken=set())
    process = multiprocessing.get_context("spawn").Process(target=main, args=(control, [(front, server.port)]))
    process.start()
    faults = MessageFaults(f"{HOST}:{control}")
    for _ in range(500):
        try:
            faults.look()
            break
        except ConnectionRefusedError:
            process.join(0.02)
    yield faults, front
    process.kill()
    process.join()


def armed(point: str, occurrence: int, kind: str) -> Fault:
    return Fault(BROKER, point, occurrence, kind)


def test_what_is_not_armed_goes_through_and_is_counted(server: Server, faults: MessageFaults, connect: Connect) -> None:
    client = connect()
    assert [7, 8, 9] == [client.ask(END_TXN, 7), client.ask(METADATA, 8), client.ask(END_TXN, 9)]
    assert {"end_txn.request": 2, "end_txn.reply": 2} == faults.look().counts
    assert () == faults.look().struck


def test_who_connects_is_led_another_way_from_then_on(server: Server, faults: MessageFaults, connect: Connect) -> None:
    elsewhere = Server()
    faults.lead({server.port: elsewhere.port})
    assert 1 == connect().ask(END_TXN, 1)
    faults.lead({})
    assert 2 == connect().ask(END_TXN, 2)
    assert (1, 2) == (elsewhere.carried_out.get(timeout=30), server.carried_out.get(timeout=30))
    elsewhere.listener.close()


def test_a_lost_request_is_not_carried_out_and_a_lost_reply_is(
    server: Server, faults: MessageFaults, connect: Connect
) -> None:
    lost = armed("end_txn.request", 2, "drop"), armed("end_txn.reply", 2, "drop")
    faults.arm(lost)
    client = connect()
    assert 1 == client.ask(END_TXN, 1)
    assert client.ask(END_TXN, 2) is None
    assert connect().ask(END_TXN, 3) is None
    assert 4 == connect().ask(END_TXN, 4)
    assert [1, 3, 4] == [server.carried_out.get(timeout=30) for _ in range(3)]
    assert lost == faults.look().struck


def test_a_doubled_request_is_carried_out_twice_and_answered_once(
    server: Server, faults: MessageFaults, connect: Connect
) -> None:
    faults.arm([armed("end_txn.request", 1, "double")])
    client = connect()
    assert [1, 2] == [client.ask(END_TXN, 1), client.ask(METADATA, 2)]
    assert [1, 1, 2] == [server.carried_out.get(timeout=30) for _ in range(3)]


def test_a_request_that_was_held_back_lands_after_its_repetition(
    server: Server, faults: MessageFaults, connect: Connect
) -> None:
    faults.arm([armed("end_txn.request", 1, "hold")])
    assert connect().ask(END_TXN, 1) is None
    assert 2 == connect().ask(END_TXN, 2)
    faults.await_landing()
    assert [2, 1] == [server.carried_out.get(timeout=30) for _ in range(2)]


@pytest.mark.slow
def test_a_late_reply_is_later_than_our_clients_wait(server: Server, faults: MessageFaults, connect: Connect) -> None:
    faults.arm([armed("end_txn.reply", 1, "delay")])
    client = connect()
    client.socket.settimeout(2)
    with pytest.raises(TimeoutError):
        client.ask(END_TXN, 1)
    assert 1 == server.carried_out.get(timeout=30)


def test_each_end_of_a_transaction_is_a_place_and_of_other_messages_the_first() -> None:
    counts = {"end_txn.request": 2, "produce.request": 5, "init_producer.request": 1}
    found = [str(fault) for fault in places(counts, "drop", every=["end_txn.request"])]
    assert [
        "broker[1].init_producer.request#1=drop",
        "broker[1].produce.request#1=drop",
        "broker[1].end_txn.request#1=drop",
        "broker[1].end_txn.request#2=drop",
    ] == found
    assert ["broker[1].end_txn.request#1=hold"] == [str(fault) for fault in places(counts, "hold")]
