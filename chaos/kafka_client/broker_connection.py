"""Sends requests to one Kafka broker, one at a time, in the version that the caller chooses; with TLS and SASL.

Messages and SASL mechanisms are kafka-python's. Its connections are not used: each has an event loop, retries of its
own, and a log of every request, in which a password would be. Import this module where it is used (messages.py).
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from itertools import count
from typing import Any, Final

from sinkproof.chaos.kafka_client.client_settings import AccessRefused, ClientSettings
from sinkproof.chaos.kafka_client.messages import (
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    get_sasl_mechanism,
)

ANSWER_BYTES_MOST: Final = 1 << 26
CLIENT: Final = "sinkproof"
OF_METADATA, OF_HANDSHAKE, OF_LOGIN = 4, 1, 1  # versions
SCRAM: Final = "SCRAM-"
ITERATIONS_LEAST: Final = 4096  # RFC 7677; with fewer, the password is cheap to guess from the proof
MALFORMED: Final = ValueError, IndexError, struct.error
EXPIRED, OTHER_NAME, OTHER_IP = 10, 62, 64  # OpenSSL's reasons to refuse a certificate
REMEDIES: Final = {
    EXPIRED: "Renew it, or check the clock of this machine",
    OTHER_NAME: "Use the name for which it was made, and let brokers advertise that name",
    OTHER_IP: "Use the name for which it was made, and let brokers advertise that name",
}


class SecretBytes(bytes):
    """What no traceback with local variables shows: PLAIN sends the password as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "b'***'"


class BrokerConnection:
    """After an OSError it cannot be used any more."""

    def __init__(self, address: str, settings: ClientSettings, *, seconds: float) -> None:
        """`seconds`: of each wait for the broker. Raises OSError, AccessRefused for one."""
        host, _, port = address.rpartition(":")
        self.address, self._numbers = address, count(1)
        self.socket = socket.create_connection((host, int(port)), timeout=seconds)
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.encrypts:
                self._encrypt(host, settings)
            if settings.logs_in:
                self._log_in(settings)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.socket.close()

    def metadata(self, *topics: str) -> Any:
        """Brokers, controller, and these topics. A missing one is not created."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        return self.request(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), OF_METADATA)

    def request(self, message: Any, version: int) -> Any:
        """The answer. Errors of the broker are values in it; a missing answer is an OSError."""
        number = next(self._numbers)
        message.API_VERSION = version
        message.with_header(correlation_id=number, client_id=CLIENT)
        self.socket.sendall(message.encode(header=True, framed=True))
        (length,) = struct.unpack(">i", self._receive(4))
        if not 4 <= length <= ANSWER_BYTES_MOST:
            raise ConnectionError(f"{self.address} does not speak the Kafka protocol")
        data = self._receive(length)
        try:
            answer = message.header.get_response_class().decode(data, header=True)
        except MALFORMED as error:
            raise ConnectionError(f"{self.address} does not speak the Kafka protocol: {error}") from error
        if answer.header.correlation_id != number:
            raise ConnectionError(f"{self.address} answers another request")
        return answer

    def _receive(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise ConnectionError(f"{self.address} closed the connection")
            parts += part
        return bytes(parts)

    # -- access -----------------------------------------------------------------------------------

    def _encrypt(self, host: str, settings: ClientSettings) -> None:
        try:
            context = _context(settings)
        except ssl.SSLError as error:
            raise AccessRefused(
                f"the certificates or the key that {settings.file} names cannot be used",
                evidence=error.reason or str(error),
                next_step="Check them, and ssl.key.password",
            ) from error
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            trust = f"Name the authority that has signed it with ssl.truststore.location in {settings.file}"
            raise AccessRefused(
                f"the certificate of {self.address} is not valid here",
                evidence=error.verify_message.rstrip("."),
                next_step=REMEDIES.get(error.verify_code, trust),
            ) from error
        except (ssl.SSLError, ConnectionError) as error:
            raise AccessRefused(
                f"{self.address} does not answer in TLS",
                evidence=getattr(error, "reason", None) or str(error),
                next_step=f"security.protocol in {settings.file} is {settings.protocol}: name its port",
            ) from error

    def _log_in(self, settings: ClientSettings) -> None:
        offered = self.request(SaslHandshakeRequest(mechanism=settings.mechanism), OF_HANDSHAKE)
        if offered.error_code:
            raise AccessRefused(
                f"{self.address} takes no password by {settings.mechanism}",
                evidence=f"it offers {', '.join(offered.mechanisms) or 'no mechanism of SASL'}",
                next_step=f"Change sasl.mechanism or security.protocol in {settings.file}",
            )
        exchange = get_sasl_mechanism(settings.mechanism)(
            sasl_mechanism=settings.mechanism,
            sasl_plain_username=_user_name(settings),
            sasl_plain_password=settings.password,
        )
        refusal = ""
        while not refusal and not exchange.is_done():
            sent = SaslAuthenticateRequest(auth_bytes=SecretBytes(exchange.auth_bytes()))
            answer = self.request(sent, OF_LOGIN)
            refusal = answer.error_code and (answer.error_message or f"Kafka's error {answer.error_code}")
            if not refusal:
                self._check_iterations(settings, answer.auth_bytes)
                refusal = _refusal_of(exchange, answer.auth_bytes)
        if refusal:
            raise AccessRefused(
                f"{self.address} does not let {settings.user} in",
                evidence=refusal,
                next_step=f"Check user and password in {settings.file}",
            )

    def _check_iterations(self, settings: ClientSettings, answer: bytes) -> None:
        """Before the proof is made."""
        if not settings.mechanism.startswith(SCRAM):
            return
        with suppress(ValueError):  # what is malformed is refused below
            given = dict(pair.split("=", 1) for pair in answer.decode().split(","))
            iterations = int(given.get("i", ITERATIONS_LEAST))
            if iterations < ITERATIONS_LEAST:
                raise AccessRefused(
                    f"{self.address} wants a weak proof of the password",
                    evidence=f"iterations: {iterations}, where {settings.mechanism} needs {ITERATIONS_LEAST}",
                    next_step="Check that this is your broker, and make the credentials of the user anew",
                )


def _user_name(settings: ClientSettings) -> str:
    """As the mechanism sends it. kafka-python leaves what SCRAM has to escape to its caller."""
    if not settings.mechanism.startswith(SCRAM):
        return settings.user
    return settings.user.replace("=", "=3D").replace(",", "=2C")


def _refusal_of(exchange: Any, answer: bytes) -> str:
    """Why the proof that the broker gives of itself is not taken."""
    try:
        exchange.receive(answer)
    except (ValueError, KeyError) as error:
        return f"its answer proves nothing: {error}"
    return "" if not exchange.is_done() or exchange.is_authenticated() else "it answers otherwise than SASL says"


def _context(settings: ClientSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.authorities or None)
    context.check_hostname = settings.checks_host_name
    if settings.certificate:  # without a password OpenSSL would ask the terminal for one
        context.load_cert_chain(settings.certificate, settings.key, password=lambda: settings.key_password)
    return context
