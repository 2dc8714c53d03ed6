"""Requests cluster metadata from one broker: the shortest request that only a ready broker answers."""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from sinkproof.chaos.kafka_client.client_settings import AccessRefused, brokers_of, settings_of
from sinkproof.chaos.optional_packages import install_command
from sinkproof.chaos.services.service import ServiceUnavailable

ANSWER_SECONDS: Final = 2.0
ANSWER_SECONDS_OF_OTHERS: Final = 10.0  # of a cluster that sinkproof does not run


class Membership(NamedTuple):
    brokers: dict[int, str]  # node id: host:port
    controller: int  # -1: none


def request_metadata(address: str, *, seconds: float) -> Membership:
    """Raises OSError without a reply, or if the reply is not Kafka's."""
    try:
        from sinkproof.chaos.kafka_client.broker_connection import BrokerConnection
    except ImportError as error:
        raise ServiceUnavailable(
            "brokers are asked by kafka-python", evidence=str(error), next_step=f"Run: {install_command('kafka')}"
        ) from error

    (broker,) = brokers_of(address)
    connection = BrokerConnection(broker, settings_of(address), seconds=seconds)
    try:
        found = connection.metadata()
    finally:
        connection.close()
    return Membership({each.node_id: f"{each.host}:{each.port}" for each in found.brokers}, found.controller_id)


def is_ready(address: str, *, node: int, nodes: int) -> bool:
    """Whether this node lists itself, all other nodes, and a controller."""
    try:
        found = request_metadata(address, seconds=ANSWER_SECONDS)
    except OSError:
        return False
    return node in found.brokers and len(found.brokers) >= nodes and found.controller >= 0


def count_brokers(address: str) -> int:
    """Of a cluster that sinkproof does not run. What its user can mend in the file of the address is said so."""
    try:
        return len(request_metadata(address, seconds=ANSWER_SECONDS_OF_OTHERS).brokers)
    except AccessRefused as refused:
        raise ServiceUnavailable(refused.what, evidence=refused.evidence, next_step=refused.next_step) from refused
    except ssl.SSLError as error:
        raise ServiceUnavailable(
            f"{brokers_of(address)[0]} ends the TLS connection",
            evidence=error.reason or str(error),
            next_step="If it wants a certificate of its clients, name that with ssl.keystore.location",
        ) from error
