"""Connections to servers that are no broker, or not the one that was meant: each says what happened and what to do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.ports import HOST
from sinkproof.chaos.services.service import ServiceUnavailable

from ...support.certificates import issue

SOON = 60.0  # seconds: ends a test that has failed
Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server of one connection, which receives once and sends `answer`; returns its port."""
    servers: list[socket.socket] = []

    def started(answer: bytes, *, certificate: Path | None = None) -> int:
        servers.append(socket.create_server((HOST, 0)))
        threading.Thread(target=_answer, args=(servers[-1], answer, certificate), daemon=True).start()
        return int(servers[-1].getsockname()[1])

    yield started
    for server in servers:
        server.close()


def _answer(server: socket.socket, answer: bytes, certificate: Path | None) -> None:
    with suppress(OSError):
        connection, _ = server.accept()
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            connection.settimeout(SOON)
            connection.recv(1 << 16)
            connection.sendall(answer)


def refusal(folder: Path, port: int, *lines: str, host: str = HOST) -> str:
    """What the command line would say about this address with a file of these lines."""
    file = folder / "client.properties"
    file.write_text("\n".join(lines))
    with pytest.raises(ServiceUnavailable) as refused, KAFKA.use(f"external:{host}:{port}@{file}"):
        pass
    return str(refused.value)


def test_a_server_of_another_authority_is_not_trusted(serve: Serve, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    issue(tmp_path, HOST)
    said = refusal(
        tmp_path, serve(b"", certificate=issue(theirs, HOST)[1]), "security.protocol=SSL", "ssl.ca.location=ca.pem"
    )
    assert "is not valid here: unable to get local issuer certificate. Name the authority that has signed it" in said


@pytest.mark.parametrize(
    ("names", "expired", "why"),
    [
        ([HOST], True, "certificate has expired. Renew it, or check the clock"),
        (["kafka.example"], False, "IP address mismatch, certificate is not valid for '127.0.0.1'. Use the name"),
    ],
)
def test_a_certificate_that_is_over_or_for_another_name_is_refused(
    serve: Serve, tmp_path: Path, names: list[str], expired: bool, why: str
) -> None:
    port = serve(b"", certificate=issue(tmp_path, *names, expired=expired)[1])
    assert why in refusal(tmp_path, port, "security.protocol=SSL", "ssl.ca.location=ca.pem")


def test_a_port_without_tls_is_named(serve: Serve, tmp_path: Path) -> None:
    said = refusal(tmp_path, serve(b"no TLS at all"), "security.protocol=SSL")
    assert "does not answer in TLS: " in said
    assert "security.protocol in" in said


def test_a_tls_server_that_is_no_broker_is_named(serve: Serve, tmp_path: Path) -> None:
    port = serve(b"HTTP/1.1 400 Bad Request", certificate=issue(tmp_path, HOST)[1])
    said = refusal(tmp_path, port, "security.protocol=SSL", "ssl.ca.location=ca.pem")
    assert "does not speak the Kafka protocol" in said
    assert "no Kafka answers at" in said


def test_a_key_without_its_password_never_asks_the_terminal(serve: Serve, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    _, certificate = issue(tmp_path, HOST)
    key = ec.generate_private_key(ec.SECP256R1())
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"locked"))
    (tmp_path / "key.pem").write_bytes(locked)
    lines = ("security.protocol=SSL", f"ssl.certificate.location={certificate}", "ssl.key.location=key.pem")
    assert "cannot be used" in refusal(tmp_path, serve(b""), *lines)
