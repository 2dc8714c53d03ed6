"""Creates and removes topics; on return all brokers know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sinkproof.chaos.kafka_client.client_settings import client_options

SECONDS: Final = 30.0
AGAIN_SECONDS: Final = 0.02
COMPACTED: Final = {"cleanup.policy": "compact"}  # the last record of each key is kept for ever


def make_topics(endpoint: str, topics: Mapping[str, Mapping[str, str]], *, partitions: int) -> None:
    """`topics`: names and their settings."""
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    wanted = [NewTopic(name, partitions, config=dict(settings)) for name, settings in topics.items()]
    admin = _admin(endpoint)
    for future in admin.create_topics(wanted, operation_timeout=SECONDS, request_timeout=SECONDS).values():
        future.result(SECONDS)
    _await_leaders(admin, {*topics})


def topics_there(endpoint: str) -> set[str]:
    return {*_admin(endpoint).list_topics(timeout=SECONDS).topics}


def _await_leaders(admin: Any, wanted: set[str]) -> None:
    """The controller has answered, but other brokers may not know the topics yet."""
    for _ in range(int(SECONDS / AGAIN_SECONDS)):
        found = admin.list_topics(timeout=SECONDS).topics
        partitions = [found[name].partitions for name in wanted if name in found and found[name].error is None]
        ready = all(partition.leader >= 0 for of_one in partitions for partition in of_one.values())
        if ready and len(partitions) == len(wanted) and all(partitions):
            return
        admin.poll(AGAIN_SECONDS)
    raise TimeoutError(f"topics {sorted(wanted)} have no leaders after {SECONDS:.0f} s")


def remove_topics(endpoint: str, topics: Sequence[str]) -> None:
    """Ignores topics that do not exist."""
    from confluent_kafka import KafkaError, KafkaException

    admin = _admin(endpoint)
    for future in admin.delete_topics(list(topics), operation_timeout=SECONDS, request_timeout=SECONDS).values():
        try:
            future.result(SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


def _admin(endpoint: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({**client_options(endpoint), "log_level": 2})
