"""What `scratch.service("kafka")` gives to contracts: a broker that all processes of one certification find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.service import Service
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.sink_adapters.kafka.broker_evidence import evidence
from sinkproof.sink_adapters.kafka.topic_admin import make_topics, remove_topics
from sinkproof.sink_adapters.kafka.topic_reader import READ_COMMITTED, Record, lingering, read
from sinkproof.sink_adapters.kafka.transaction_control import Control, NotNow
from sinkproof.subject.services_in_use import NO_SETTINGS, ServicesInUse

ENDING: Final = ("PrepareCommit", "PrepareAbort")
SETTLED_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaService:
    """A cluster that is there. `endpoint`: for sinks; `direct_endpoint`: for readers. `own`: it ends with us.
    `identity`: of the cluster and its data; another one may have the same address later.
    """

    endpoint: str
    direct_endpoint: str
    identity: str
    own: bool = False

    def make_topic(self, name: str, *, partitions: int = 2, settings: Mapping[str, Any] = NO_SETTINGS) -> None:
        """Names are unique in the cluster: begin them with `scratch.path.name`."""
        make_topics(self.direct_endpoint, {name: settings}, partitions=partitions)

    def remove_topics(self, names: Sequence[str]) -> None:
        remove_topics(self.direct_endpoint, names)

    def read(self, topic: str, *, isolation: str = READ_COMMITTED) -> list[Record]:
        """Every record that such a reader sees; it never waits behind an open transaction."""
        return read(self.direct_endpoint, topic, isolation=isolation)

    def evidence(self, topics: Sequence[str], prefix: str) -> list[str]:
        """What is out of order in these topics, as the broker says: who hides which rows, and who left that behind.
        `prefix`: of the transactional ids of all who write there. For a contract's `evidence`.
        """
        return evidence(self.direct_endpoint, topics, prefix)

    def lingering(self, prefix: str) -> list[str]:
        """Transactional ids with this prefix whose transactions are neither committed nor aborted."""
        return lingering(self.direct_endpoint, prefix)


def kafka_service(services: ServicesInUse, *, start: bool, settings: Mapping[str, Any] = NO_SETTINGS) -> KafkaService:
    """See ServicesInUse.find."""
    used = services.find(KAFKA, start=start, settings=settings, await_settled=await_settled)
    return KafkaService(
        endpoint=services.sink_address(used),
        direct_endpoint=used.service.direct_endpoint,
        identity=used.service.identity,
        own=used.own,
    )


def await_settled(service: Service) -> None:
    """An end of a transaction is answered when it is decided; its rows can be read when the markers are written. That
    takes milliseconds, and longer after a restart. What takes longer than this is a finding.
    """
    control = Control(service.direct_endpoint)
    try:
        control.await_none(".*", ENDING, seconds=SETTLED_SECONDS)
    except NotNow as error:
        raise ReaderFailed("has no broker to ask", evidence=str(error)) from error
    finally:
        control.close()
