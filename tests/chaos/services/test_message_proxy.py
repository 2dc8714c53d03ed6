"""The message proxy, between a client and a server that use Kafka's framing.

The tests wait for replies, never for a time: a busy machine changes no order.
"""

from __future__ import annotations

import multiprocessing
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import Queue

import pytest

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.faults.message_sites import message_sites
from sinkproof.chaos.messages.message_points import BROKER, MessageFaults
from sinkproof.chaos.messages.message_proxy import HOST, main
from sinkproof.chaos.schedule import Fault
from sinkproof.chaos.services.ports import free_ports

END_TXN = 26
METADATA = 3
CLIENT_SECONDS = 2.0  # the request timeout of our own clients
SOON = 60.0  # seconds: ends a test that has failed


class NumberServer:
    """Replies to each request with its number, and records the numbers in the order of execution."""

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
        self.socket = socket.create_connection((HOST, port), timeout=SOON)

    def request(self, kind: int, number: int) -> int | None:
        """The number in the reply; None: the connection was closed."""
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
def server() -> Iterator[NumberServer]:
    made = NumberServer()
    yield made
    made.listener.close()


@pytest.fixture
def proxy(server: NumberServer) -> Iterator[tuple[MessageFaults, int]]:
    """Its control client, and its port for clients."""
    control, front = free_ports(2, taken=set())
    routes = [(front, server.port)]
    process = multiprocessing.get_context("spawn").Process(
        target=main, args=(control, routes), kwargs={"repetition_seconds": SOON}
    )
    process.start()
    faults = MessageFaults(f"{HOST}:{control}")
    deadline = Deadline(SOON)
    while not accepts(control) or not accepts(front):
        assert not deadline.over, "the proxy does not start"
        process.join(0.02)
    yield faults, front
    process.kill()
    process.join()


def accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port)).close()
    except ConnectionRefusedError:
        return False
    return True


def armed(point: str, occurrence: int, kind: str) -> Fault:
    return Fault(BROKER, point, occurrence, kind)


def test_messages_without_a_fault_pass_and_are_counted(
    server: NumberServer, faults: MessageFaults, connect: Connect
) -> None:
    client = connect()
    assert [7, 8, 9] == [client.request(END_TXN, 7), client.request(METADATA, 8), client.request(END_TXN, 9)]
    assert {"end_txn.request": 2, "end_txn.reply": 2} == faults.status().counts
    assert () == faults.status().injected


def test_new_connections_are_rerouted(server: NumberServer, faults: MessageFaults, connect: Connect) -> None:
    elsewhere = NumberServer()
    faults.reroute({server.port: elsewhere.port})
    assert 1 == connect().request(END_TXN, 1)
    faults.reroute({})
    assert 2 == connect().request(END_TXN, 2)
    assert (1, 2) == (elsewhere.carried_out.get(timeout=SOON), server.carried_out.get(timeout=SOON))
    elsewhere.listener.close()


def test_a_lost_request_is_not_carried_out_and_one_with_a_lost_reply_is(
    server: NumberServer, faults: MessageFaults, connect: Connect
) -> None:
    lost = armed("end_txn.request", 2, "drop"), armed("end_txn.reply", 2, "drop")
    faults.arm(lost)
    client = connect()
    assert 1 == client.request(END_TXN, 1)
    assert client.request(END_TXN, 2) is None
    assert connect().request(END_TXN, 3) is None
    assert 4 == connect().request(END_TXN, 4)
    assert [1, 3, 4] == [server.carried_out.get(timeout=SOON) for _ in range(3)]
    assert lost == faults.status().injected


def test_a_duplicate_request_is_carried_out_twice_and_answered_once(
    server: NumberServer, faults: MessageFaults, connect: Connect
) -> None:
    faults.arm([armed("end_txn.request", 1, "double")])
    client = connect()
    assert [1, 2] == [client.request(END_TXN, 1), client.request(METADATA, 2)]
    assert [1, 1, 2] == [server.carried_out.get(timeout=SOON) for _ in range(3)]


def test_a_held_request_is_carried_out_after_its_repetition(
    server: NumberServer, faults: MessageFaults, connect: Connect
) -> None:
    faults.arm([armed("end_txn.request", 1, "hold")])
    assert connect().request(END_TXN, 1) is None
    assert 2 == connect().request(END_TXN, 2)
    faults.await_landing()
    assert [2, 1] == [server.carried_out.get(timeout=SOON) for _ in range(2)]


def requested_by_a_child(port: int, numbers: list[int]) -> None:
    client = Client(port)
    for number in numbers:
        client.request(END_TXN, number)


@pytest.mark.parametrize(("point", "carried_out"), [("end_txn.request", [1]), ("end_txn.reply", [1, 2])])
def test_a_sender_is_killed_before_its_request_or_its_reply_arrives(
    point: str, carried_out: list[int], server: NumberServer, proxy: tuple[MessageFaults, int]
) -> None:
    faults, port = proxy
    faults.arm([armed(point, 2, "kill-sender")])
    child = multiprocessing.get_context("fork").Process(target=requested_by_a_child, args=(port, [1, 2, 3]))
    child.start()
    child.join()
    assert -signal.SIGKILL == child.exitcode
    assert (armed(point, 2, "kill-sender"),) == faults.status().injected
    assert carried_out == [server.carried_out.get(timeout=SOON) for _ in carried_out]
    assert server.carried_out.empty()


def test_what_is_no_descendant_of_the_process_that_has_armed_it_only_loses_its_connection(
    faults: MessageFaults, connect: Connect
) -> None:
    faults.arm([armed("end_txn.request", 1, "kill-sender")])
    assert connect().request(END_TXN, 1) is None
    assert () == faults.status().injected, "nothing has died"


@pytest.mark.slow
def test_a_delayed_reply_arrives_after_the_timeout_of_our_clients(
    server: NumberServer, faults: MessageFaults, connect: Connect
) -> None:
    faults.arm([armed("end_txn.reply", 1, "delay")])
    client = connect()
    began = now()
    assert 1 == client.request(END_TXN, 1)
    assert CLIENT_SECONDS < now() - began
    assert 1 == server.carried_out.get(timeout=SOON)


def test_sites_are_each_end_of_a_transaction_and_the_first_of_other_messages() -> None:
    counts = {"end_txn.request": 2, "produce.request": 5, "init_producer.request": 1}
    found = [str(fault) for fault in message_sites(counts, "drop", every=["end_txn.request"])]
    assert [
        "broker[1].end_txn.request#1=drop",
        "broker[1].end_txn.request#2=drop",
        "broker[1].init_producer.request#1=drop",
        "broker[1].produce.request#1=drop",
    ] == found
    assert ["broker[1].end_txn.request#1=hold"] == [str(fault) for fault in message_sites(counts, "hold")]
