"""The few requests that settle transactions from a process that did not begin them, and those that read what is there.

confluent-kafka offers none of them. Each is sent in one fixed version, because the version decides its effect. Import
this module where it is used: messages.py says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sinkproof.chaos.kafka_client.broker_connection import CLIENT, BrokerConnection
from sinkproof.chaos.kafka_client.messages import (
    ApiVersionsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
)

ANY_LENGTH: Final = -1  # open for any time
NEW_PRODUCER: Final = -1
NO_LEADER: Final = 5
NO_REPLICA: Final = -1  # the client is no replica
LATEST: Final = -1
OF_TRANSACTIONS: Final = 1  # the kind of coordinator


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator knows it."""

    error: int
    state: str
    producer: int
    epoch: int
    partitions: frozenset[tuple[str, int]]  # topic, number


class ListedTransaction(NamedTuple):
    """A transactional id in a ListTransactions answer."""

    name: str
    producer: int
    state: str


class ActiveProducer(NamedTuple):
    """A producer of a partition, as its leader knows it. `since`: offset of its open transaction; -1: none."""

    producer: int
    epoch: int
    since: int


class RequestingConnection(BrokerConnection):
    """A connection to one broker, with a method for each request."""

    def brokers(self) -> dict[int, str]:
        """Their addresses by node id."""
        return {broker.node_id: f"{broker.host}:{broker.port}" for broker in self.metadata().brokers}

    def partitions(self, topic: str) -> tuple[int, list[int]]:
        """(error, numbers). A missing topic is not created."""
        (found,) = self.metadata(topic).topics
        leaderless = any(partition.error_code == NO_LEADER for partition in found.partitions)
        error = NO_LEADER if leaderless else found.error_code
        return error, sorted(partition.partition_index for partition in found.partitions)

    def finalized_features(self) -> dict[str, int]:
        """The level of each that the whole cluster has agreed on."""
        answer = self.request(ApiVersionsRequest(client_software_name=CLIENT, client_software_version="1"), 3)
        return {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}

    def coordinator(self, transactional_id: str) -> tuple[int, str]:
        """(error, address)."""
        answer = self.request(FindCoordinatorRequest(key=transactional_id, key_type=OF_TRANSACTIONS), 1)
        return answer.error_code, f"{answer.host}:{answer.port}"

    def end(self, transactional_id: str, producer: int, epoch: int, *, commit: bool, version: int) -> int:
        """The error. Version 5 also increments the epoch, so that a client with the old one is fenced."""
        of_producer = {"producer_id": producer, "producer_epoch": epoch}
        message = EndTxnRequest(transactional_id=transactional_id, committed=commit, **of_producer)
        return int(self.request(message, version).error_code)

    def take_over(self, transactional_id: str, *, timeout_ms: int) -> int:
        """The error. On success the open transaction is aborted, and its producer is fenced by a higher epoch."""
        new = {"producer_id": NEW_PRODUCER, "producer_epoch": NEW_PRODUCER}
        message = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **new)
        return int(self.request(message, 4).error_code)

    def describe(self, transactional_id: str) -> TransactionDescription:
        answer = self.request(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
        (found,) = answer.transaction_states
        partitions = frozenset((topic.topic, number) for topic in found.topics for number in topic.partitions)
        return TransactionDescription(
            found.error_code, found.transaction_state, found.producer_id, found.producer_epoch, partitions
        )

    def transactions(self, pattern: str, states: Sequence[str]) -> tuple[int, list[ListedTransaction]]:
        """(error, transactions that this broker coordinates). `pattern`: RE2, for the whole id. No states: all."""
        message = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=[],
            duration_filter=ANY_LENGTH,
            transactional_id_pattern=pattern,
        )
        answer = self.request(message, 2)
        found = [
            ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]
        return answer.error_code, found

    def end_offset(self, topic: str, partition: int, *, committed: bool) -> tuple[int, int]:
        """(error, end offset); with `committed`, the last stable offset."""
        topics = ListOffsetsRequest.ListOffsetsTopic
        wanted = topics(
            name=topic, partitions=[topics.ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
        )
        message = ListOffsetsRequest(replica_id=NO_REPLICA, isolation_level=int(committed), topics=[wanted])
        ((found,),) = (each.partitions for each in self.request(message, 2).topics)
        return found.error_code, found.offset

    def producers(self, topic: str, partition: int) -> tuple[int, list[ActiveProducer]]:
        """(error, recent producers)."""
        wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
        answer: Any = self.request(DescribeProducersRequest(topics=[wanted]), 0)
        ((found,),) = (each.partitions for each in answer.topics)
        active = [
            ActiveProducer(each.producer_id, each.producer_epoch, each.current_txn_start_offset)
            for each in found.active_producers
        ]
        return found.error_code, active
