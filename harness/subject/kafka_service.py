"""What `scratch.service("kafka")` returns: a cluster that all processes of one certification share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sinkproof.chaos.kafka_client.client_settings import QUICK, brokers_of, client_options, settings_of
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.service import Service
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.sink_adapters.kafka.broker_evidence import evidence
from sinkproof.sink_adapters.kafka.topic_admin import make_topics, remove_topics
from sinkproof.sink_adapters.kafka.topic_reader import (
    FETCH_WAIT_MS,
    READ_COMMITTED,
    TopicRecord,
    forget,
    lingering,
    read,
)
from sinkproof.sink_adapters.kafka.transaction_control import NotNow, TransactionControl
from sinkproof.subject.services_in_use import NO_SETTINGS, ServicesInUse

ENDING: Final = ("PrepareCommit", "PrepareAbort")
SETTLED_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaService:
    """A running cluster. `endpoint`: for sinks; `direct_endpoint`: for readers. `own`: it ends with the certification.
    `identity`: of the cluster and its data; another cluster may have the same address later. An endpoint of a cluster
    that wants TLS or a password ends with @FILE, which our own sinks and readers take; other clients take
    `client_options`, or `brokers` and `settings_file`.
    """

    endpoint: str
    direct_endpoint: str
    identity: str
    own: bool = False
    inside: bool = False  # it is killed between two of its own writes, and each restart recovers every topic

    @property
    def client_options(self) -> dict[str, Any]:
        """For a sink's own client of confluent-kafka: addresses, TLS, user and password, read now from their file; and
        what lets new clients start quickly, as each attempt has a new one.
        """
        return {**client_options(self.endpoint), **QUICK}

    @property
    def consumer_options(self) -> dict[str, Any]:
        """The same for a consumer, which waits for 10 ms at the end of a partition, not 500."""
        return {**self.client_options, "fetch.wait.max.ms": FETCH_WAIT_MS}

    @property
    def brokers(self) -> str:
        """HOST:PORT[,HOST:PORT] for sinks."""
        return ",".join(brokers_of(self.endpoint))

    @property
    def settings_file(self) -> str:
        """As Kafka's own tools and Java clients take it; "" if the cluster needs none."""
        return settings_of(self.endpoint).file

    def make_topic(self, name: str, *, partitions: int = 2, settings: Mapping[str, Any] = NO_SETTINGS) -> None:
        """Topic names must be unique in the cluster: begin them with `scratch.path.name`."""
        make_topics(self.direct_endpoint, {name: settings}, partitions=partitions)

    def remove_topics(self, names: Sequence[str]) -> None:
        remove_topics(self.direct_endpoint, names)
        forget(names)

    def read(self, topic: str, *, isolation: str = READ_COMMITTED) -> list[TopicRecord]:
        """Every record that a reader of this isolation sees now. Never waits behind an open transaction."""
        return read(self.direct_endpoint, topic, isolation=isolation)

    def evidence(self, topics: Sequence[str], prefix: str) -> list[str]:
        """The broker about these topics: which open transaction hides which rows, and which producer left it
        open. `prefix`: of the transactional ids of every writer. For a contract's `evidence`.
        """
        return evidence(self.direct_endpoint, topics, prefix)

    def lingering(self, prefix: str) -> list[str]:
        """Transactional ids with this prefix that have a transaction neither committed nor aborted."""
        return lingering(self.direct_endpoint, prefix)


def kafka_service(services: ServicesInUse, *, start: bool, settings: Mapping[str, Any] = NO_SETTINGS) -> KafkaService:
    """See ServicesInUse.find."""
    used = services.find(KAFKA, start=start, settings=settings, await_settled=await_settled)
    return KafkaService(
        endpoint=services.sink_address(used),
        direct_endpoint=used.service.direct_endpoint,
        identity=used.service.identity,
        own=used.own,
        inside=services.options.inside_service,
    )


def await_settled(service: Service) -> None:
    """Waits until the markers of every ended transaction are written, at most SETTLED_SECONDS. A broker answers the end
    of a transaction before it writes the markers, and rows can be read only after them. It takes milliseconds, longer
    after a restart; a longer delay is a finding.
    """
    control = TransactionControl(service.direct_endpoint)
    try:
        control.await_none(".*", ENDING, seconds=SETTLED_SECONDS)
    except NotNow as error:
        raise ReaderFailed("has no broker that answers", evidence=str(error)) from error
    finally:
        control.close()
