"""Settles transactions through their coordinators: commits, describes, lists, takes over.

After an error that only means "not now" the request is repeated at the current coordinator until the time is over. All
other answers are returned: the target decides what they mean for a transaction.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sinkproof.chaos.kafka_client.client_settings import brokers_of, settings_of

if TYPE_CHECKING:
    from sinkproof.sink_adapters.kafka.broker_requests import (
        ActiveProducer,
        ListedTransaction,
        RequestingConnection,
        TransactionDescription,
    )

REQUEST_SECONDS: Final = 2.0
# Of one request with all its retries. A killed broker takes longer to restart, but a call of 10 s counts as hung:
# after this time the outcome is unknown. Added up, not measured: clocks may be virtual.
ANSWER_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.02
NOT_NOW: Final = {
    5: "a partition has no leader",
    6: "not the leader",
    7: "request timed out",
    14: "coordinator is loading",
    15: "coordinator is not available",
    16: "not the coordinator",
    51: "another transaction of this id is still being ended",
}
NO_ERROR: Final = 0
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")  # states
FEATURE: Final = "transaction.version"
FENCING_LEVEL: Final = 2  # from this level on every EndTxn increments the epoch
END_FENCING: Final = 5
END_PLAIN: Final = 3
Answer = TypeVar("Answer", bound=int | tuple[Any, ...])  # an error, or a tuple that begins with one


class NotNow(Exception):
    """No answer within the time; the outcome of the request is unknown."""


class TransactionControl:
    """Connections are made when they are needed; never across a fork."""

    def __init__(self, endpoint: str) -> None:
        self.endpoints, self.settings = brokers_of(endpoint), settings_of(endpoint)
        self._connections: dict[str, RequestingConnection] = {}
        self._coordinators: dict[str, str] = {}

    def end_version(self) -> int:
        """How transactions are ended in this cluster. Version 5 makes transactions hang in a cluster that does not
        support it.
        """
        _, level = self._any_broker(lambda connection: (NO_ERROR, connection.finalized_features().get(FEATURE, 0)))
        return END_FENCING if level >= FENCING_LEVEL else END_PLAIN

    def commit(self, transactional_id: str, producer: int, epoch: int, *, version: int) -> int:
        """The error, which is none of NOT_NOW. Raises NotNow."""
        return self._of_coordinator(
            transactional_id,
            lambda connection: connection.end(transactional_id, producer, epoch, commit=True, version=version),
        )

    def take_over(self, transactional_id: str, *, timeout_ms: int) -> int:
        """Aborts the open transaction of this id and fences its producer. The error. Raises NotNow."""
        return self._of_coordinator(
            transactional_id,
            lambda connection: connection.take_over(transactional_id, timeout_ms=timeout_ms),
        )

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Raises NotNow."""
        return self._of_coordinator(transactional_id, lambda connection: connection.describe(transactional_id))

    def transactions(self, pattern: str, states: Sequence[str]) -> list[str]:
        """Transactional ids, sorted, of all coordinators. Raises NotNow."""
        return [listed.name for listed in self.listed(pattern, states)]

    def listed(self, pattern: str, states: Sequence[str]) -> list[ListedTransaction]:
        """The same, with what their coordinators say. No states: all."""
        _, brokers = self._any_broker(lambda connection: (NO_ERROR, connection.brokers()))
        found: list[ListedTransaction] = []
        for address in brokers.values():
            found += self._until_answered(
                lambda address=address: address,  # type: ignore[misc]
                lambda connection: connection.transactions(pattern, states),
            )[1]
        return sorted(found)

    def await_none(self, pattern: str, states: Sequence[str], *, seconds: float) -> bool:
        """Whether by then no transaction is in one of these states. Raises NotNow."""
        for _ in range(int(seconds / AGAIN_SECONDS)):
            if not self.transactions(pattern, states):
                return True
            select.select([], [], [], AGAIN_SECONDS)
        return False

    def end_offset(self, topic: str, partition: int, *, committed: bool) -> tuple[int, int]:
        """(error, offset). Raises NotNow."""
        return self._any_broker(lambda connection: connection.end_offset(topic, partition, committed=committed))

    def producers(self, topic: str, partition: int) -> tuple[int, list[ActiveProducer]]:
        """(error, recent producers). Raises NotNow."""
        return self._any_broker(lambda connection: connection.producers(topic, partition))

    def partitions(self, topic: str) -> tuple[int, list[int]]:
        """(error, numbers). Raises NotNow."""
        return self._any_broker(lambda connection: connection.partitions(topic))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- retries ----------------------------------------------------------------------------------

    def _any_broker(self, request: Callable[[RequestingConnection], Answer]) -> Answer:
        turn = cycle(self.endpoints)
        return self._until_answered(lambda: next(turn), request)

    def _of_coordinator(self, transactional_id: str, request: Callable[[RequestingConnection], Answer]) -> Answer:
        def where() -> str:
            known = self._coordinators.pop(transactional_id, "")  # kept only if this coordinator answers
            return known or self._any_broker(lambda connection: connection.coordinator(transactional_id))[1]

        def of_coordinator(connection: RequestingConnection) -> Answer:
            answer = request(connection)
            if _error_in(answer) not in NOT_NOW:
                self._coordinators[transactional_id] = connection.address
            return answer

        return self._until_answered(where, of_coordinator)

    def _until_answered(self, where: Callable[[], str], request: Callable[[RequestingConnection], Answer]) -> Answer:
        """Repeats until there is an answer that is none of NOT_NOW."""
        spent = 0.0
        while True:
            address, problem = "", ""
            try:
                address = where()
                answer = request(self._connection(address))
                if _error_in(answer) not in NOT_NOW:
                    return answer
                problem = NOT_NOW[_error_in(answer)]
            except OSError as error:
                problem = str(error)
                spent += REQUEST_SECONDS if isinstance(error, TimeoutError) else 0.0
                if (broken := self._connections.pop(address, None)) is not None:
                    broken.close()
            if spent >= ANSWER_SECONDS:
                raise NotNow(f"{address or ','.join(self.endpoints)}: {problem}")
            spent += AGAIN_SECONDS
            select.select([], [], [], AGAIN_SECONDS)  # no event is sent when a coordinator has moved

    def _connection(self, address: str) -> RequestingConnection:
        if address not in self._connections:
            self._connections[address] = self.connect(address, seconds=REQUEST_SECONDS)
        return self._connections[address]

    def connect(self, address: str, *, seconds: float) -> RequestingConnection:
        """A connection without retries, which is the caller's. Raises OSError."""
        from sinkproof.sink_adapters.kafka.broker_requests import RequestingConnection

        return RequestingConnection(address, self.settings, seconds=seconds)


def _error_in(answer: int | tuple[Any, ...]) -> int:
    return answer if isinstance(answer, int) else int(answer[0])
