"""Logging in at a false broker: what is sent to it, what it is not given, and that no traceback shows the password."""

from __future__ import annotations

import re
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from sinkproof.chaos.kafka_client.broker_connection import BrokerConnection
from sinkproof.chaos.kafka_client.client_settings import AccessRefused, ClientSettings
from sinkproof.chaos.services.ports import HOST

SOON = 60.0  # seconds: ends a test that has failed
PASSWORD = "hunter2"
CLOSES = b""
Answer = Callable[[bytes], bytes]  # to a request; CLOSES: none


class FalseBroker:
    """Takes one connection and the mechanism that is asked for, and then gives one answer to each further request."""

    def __init__(self) -> None:
        self.server = socket.create_server((HOST, 0))
        self.requests: list[bytes] = []

    def log_in(self, mechanism: str, *answers: Answer, user: str = "alice") -> Exception:
        """How that ends."""
        offers = struct.pack(">hih", 0, 1, len(mechanism)) + mechanism.encode()
        thread = threading.Thread(target=self._serve, args=((lambda _: offers), *answers))
        thread.start()
        host, port = self.server.getsockname()
        settings = ClientSettings(
            file="client.properties", protocol="SASL_PLAINTEXT", mechanism=mechanism, user=user, password=PASSWORD
        )
        with pytest.raises(ConnectionError) as ended:
            BrokerConnection(f"{host}:{port}", settings, seconds=SOON)
        thread.join()
        return ended.value

    def _serve(self, *answers: Answer) -> None:
        connection, _ = self.server.accept()
        connection.settimeout(SOON)
        with connection, connection.makefile("rb") as stream, suppress(OSError):
            for number, answer in enumerate(answers, 1):
                if not (head := stream.read(4)):
                    return
                self.requests.append(stream.read(*struct.unpack(">i", head)))
                if body := answer(self.requests[-1]):
                    connection.sendall(struct.pack(">ii", 4 + len(body), number) + body)


@pytest.fixture
def broker() -> Iterator[FalseBroker]:
    broker = FalseBroker()
    yield broker
    broker.server.close()


def passed(data: bytes) -> bytes:
    """An answer of SASL without an error."""
    return struct.pack(">hhi", 0, -1, len(data)) + data + struct.pack(">q", 0)


def closing(_: bytes) -> bytes:
    return CLOSES


def iterations(wanted: str) -> Answer:
    def first(request: bytes) -> bytes:
        nonce = re.search(rb",r=([^,]+)$", request)
        assert nonce is not None
        return passed(b"r=" + nonce[1] + b"theirs,s=c2FsdA==,i=" + wanted.encode())

    return first


def test_no_local_variable_shows_a_password_that_plain_has_sent(broker: FalseBroker) -> None:
    ended = broker.log_in("PLAIN", closing)
    assert broker.requests[-1].endswith(b"alice\0alice\0hunter2")
    shown = "".join(traceback.TracebackException.from_exception(ended, capture_locals=True).format())
    assert "closed the connection" in shown
    assert "SaslAuthenticateRequest(" in shown
    assert PASSWORD not in shown


@pytest.mark.parametrize(
    ("mechanism", "sent"),
    [("SCRAM-SHA-256", b"n,,n=a=3Db=2Cc,r="), ("SCRAM-SHA-512", b"n,,n=a=3Db=2Cc,r="), ("PLAIN", b"a=b,c\0a=b,c\0")],
)
def test_only_scram_escapes_the_name_of_the_user(broker: FalseBroker, mechanism: str, sent: bytes) -> None:
    broker.log_in(mechanism, closing, user="a=b,c")
    assert sent in broker.requests[-1]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("wanted", ["1", "4095", "-1", "4096,i=1"])
def test_a_broker_that_wants_few_iterations_gets_no_proof(broker: FalseBroker, mechanism: str, wanted: str) -> None:
    ended = broker.log_in(mechanism, iterations(wanted), closing)
    assert isinstance(ended, AccessRefused)
    least = wanted.rpartition("=")[2]
    assert f"wants a weak proof of the password: iterations: {least}, where {mechanism} needs 4096" in str(ended)
    assert 2 == len(broker.requests)


def test_the_least_lawful_number_of_iterations_is_taken(broker: FalseBroker) -> None:
    ended = broker.log_in("SCRAM-SHA-256", iterations("4096"), closing)
    assert "closed the connection" in str(ended)
    assert b",p=" in broker.requests[-1]


@pytest.mark.parametrize("answer", [b"i=few", b"\xff", b"nothing"])
def test_a_malformed_answer_proves_nothing(broker: FalseBroker, answer: bytes) -> None:
    ended = broker.log_in("SCRAM-SHA-256", lambda _: passed(answer), closing)
    assert "does not let alice in: its answer proves nothing" in str(ended)
    assert 2 == len(broker.requests)
