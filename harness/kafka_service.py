"""What `scratch.service("kafka")` gives to contracts: a broker that all processes of one certification find."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.kafka import running_kafka, use_kafka, where_to_look
from sinkproof.chaos.services.kafka_local import KIND, LocalKafka
from sinkproof.chaos.services.kept import running
from sinkproof.reference_engine.shells.reader import ReaderFailed
from sinkproof.sink_adapters.kafka_reader import READ_COMMITTED, Record, lingering, read
from sinkproof.sink_adapters.kafka_topics import make_topics, remove_topics

NO_SETTINGS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaService:
    """A cluster that is there. `endpoint`: for sinks; `direct_endpoint`: for readers."""

    endpoint: str
    direct_endpoint: str

    def make_topic(self, name: str, *, partitions: int = 2, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        """Names are unique in the cluster: begin them with `scratch.name`, or what is unique besides."""
        make_topics(self.direct_endpoint, {name: settings}, partitions=partitions)

    def remove_topics(self, names: Sequence[str]) -> None:
        remove_topics(self.direct_endpoint, names)

    def read(self, topic: str, *, isolation: str = READ_COMMITTED) -> list[Record]:
        """Every record that such a reader sees; it never waits behind an open transaction."""
        return read(self.direct_endpoint, topic, isolation=isolation)

    def lingering(self, prefix: str) -> list[str]:
        """Transactional ids with this prefix whose transactions are neither committed nor aborted."""
        return lingering(self.direct_endpoint, prefix)


def kafka_service(*, start: bool) -> KafkaService:
    """What SINKPROOF_KAFKA names; else the cluster that this process, or its nearest ancestor, has started; else the
    one of `services start`. `start`: else a new one, which ends with this process.
    """
    service = _find()
    if service is not None:
        return service
    if not start:
        raise LookupError(
            "no Kafka runs. Call scratch.service('kafka', start=True) in the contract's `setup`, "
            "or run: sinkproof services start kafka"
        )
    until_exit = ExitStack()
    made = until_exit.enter_context(use_kafka(""))
    atexit.register(_close, until_exit, os.getpid())
    return KafkaService(endpoint=made.endpoint, direct_endpoint=made.direct_endpoint)


def _close(stack: ExitStack, owner: int) -> None:
    """Not in a child that was forked since and ends by itself."""
    if os.getpid() == owner:
        stack.close()


def _find() -> KafkaService | None:
    named = where_to_look()
    if named.startswith("external:"):
        address = named.partition(":")[2]
        return KafkaService(endpoint=address, direct_endpoint=address)
    family = _ancestors()
    near = sorted((entry for entry in running(KIND) if entry.owner in family), key=lambda entry: -family[entry.owner])
    found = [LocalKafka.attach(entry) for entry in near]
    service = found[-1] if found else (None if named else running_kafka())
    if service is None:
        return None
    if died := service.died_by_itself():  # no fault of ours: rows that are gone with it convict nobody
        raise ReaderFailed("has no broker any more: it died by itself", evidence=died)
    return KafkaService(endpoint=service.endpoint, direct_endpoint=service.direct_endpoint)


def _ancestors() -> dict[int, int]:
    """This process and all above it, and how far above they are."""
    found: dict[int, int] = {}
    pid = os.getpid()
    while pid > 1:
        found[pid] = len(found)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            break
    return found
