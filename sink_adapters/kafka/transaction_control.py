"""Settles transactions by what their coordinators say: commits, describes, lists, takes over.

Errors that only mean "not now" are asked again, of whoever coordinates by then, until the time for it is over. Whatever
else a coordinator answers is given back: what it means for a transaction is the target's to decide.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Final, TypeVar

from sinkproof.sink_adapters.kafka.wire_protocol import Connection, Description, Listed, Producing

REQUEST_SECONDS: Final = 2.0
# Of one question, with all its repetitions. A broker that was killed takes longer to come back, but engines take a call
# of 10 s for hung: what is not known by then is said to be not known. Added up, not measured: clocks may be virtual.
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
FEATURE: Final = "transaction.version"
FENCING_LEVEL: Final = 2  # from here on every end of a transaction gives its id another epoch
END_FENCING: Final = 5
END_PLAIN: Final = 3
Answer = TypeVar("Answer")


class NotNow(Exception):
    """No answer within the time; the outcome of what was asked is not known."""


class Control:
    """Connections are made when they are needed; never across a fork."""

    def __init__(self, endpoint: str) -> None:
        self.endpoints = endpoint.split(",")
        self._connections: dict[str, Connection] = {}
        self._coordinators: dict[str, str] = {}

    def end_version(self) -> int:
        """How transactions are ended in this cluster. One that does not know 5 is left stuck by it."""
        level = self._anywhere(lambda connection: (0, connection.finalized_features().get(FEATURE, 0)))
        return END_FENCING if level >= FENCING_LEVEL else END_PLAIN

    def commit(self, transactional_id: str, producer: int, epoch: int, *, version: int) -> int:
        """The error, which is none of NOT_NOW. Raises NotNow."""
        return self._of_coordinator(
            transactional_id,
            lambda connection: (
                error := connection.end(transactional_id, producer, epoch, commit=True, version=version),
                error,
            ),
        )

    def take_over(self, transactional_id: str, *, timeout_ms: int) -> int:
        """Aborts what is open under this id and fences who opened it. The error. Raises NotNow."""
        return self._of_coordinator(
            transactional_id,
            lambda connection: (error := connection.take_over(transactional_id, timeout_ms=timeout_ms), error),
        )

    def describe(self, transactional_id: str) -> Description:
        """Raises NotNow."""

        def ask(connection: Connection) -> tuple[int, Description]:
            description = connection.describe(transactional_id)
            return description.error, description

        return self._of_coordinator(transactional_id, ask)

    def transactions(self, pattern: str, states: Sequence[str]) -> list[str]:
        """Transactional ids, sorted, of all coordinators. Raises NotNow."""
        return [listed.name for listed in self.listed(pattern, states)]

    def listed(self, pattern: str, states: Sequence[str]) -> list[Listed]:
        """The same, with what their coordinators say. No states: all."""
        brokers = self._anywhere(lambda connection: (0, connection.brokers()))
        found: list[Listed] = []
        for address in brokers.values():
            found += self._persist(
                lambda address=address: address,  # type: ignore[misc]
                lambda connection: connection.transactions(pattern, states),
            )
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

        def ask(connection: Connection) -> tuple[int, tuple[int, int]]:
            found = connection.end_offset(topic, partition, committed=committed)
            return found[0], found

        return self._anywhere(ask)

    def producers(self, topic: str, partition: int) -> tuple[int, list[Producing]]:
        """(error, who has written there lately). Raises NotNow."""
        return self._anywhere(lambda connection: ((found := connection.producers(topic, partition))[0], found))

    def partitions(self, topic: str) -> tuple[int, list[int]]:
        """(error, numbers). Raises NotNow."""
        return self._anywhere(lambda connection: ((found := connection.partitions(topic))[0], found))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- asking -----------------------------------------------------------------------------------

    def _anywhere(self, ask: Callable[[Connection], tuple[int, Answer]]) -> Answer:
        turn = cycle(self.endpoints)
        return self._persist(lambda: next(turn), ask)

    def _of_coordinator(self, transactional_id: str, ask: Callable[[Connection], tuple[int, Answer]]) -> Answer:
        def where() -> str:
            known = self._coordinators.pop(transactional_id, "")  # kept only if it answers
            return known or self._anywhere(lambda connection: connection.coordinator(transactional_id))

        def asked(connection: Connection) -> tuple[int, Answer]:
            error, answer = ask(connection)
            if error not in NOT_NOW:
                self._coordinators[transactional_id] = connection.address
            return error, answer

        return self._persist(where, asked)

    def _persist(self, where: Callable[[], str], ask: Callable[[Connection], tuple[int, Answer]]) -> Answer:
        """Until there is an answer that is none of NOT_NOW."""
        spent = 0.0
        while True:
            address, problem = "", ""
            try:
                address = where()
                error, answer = ask(self._connection(address))
                if error not in NOT_NOW:
                    return answer
                problem = NOT_NOW[error]
            except OSError as error:
                problem = str(error)
                spent += REQUEST_SECONDS if isinstance(error, TimeoutError) else 0.0
                if (dead := self._connections.pop(address, None)) is not None:
                    dead.close()
            if spent >= ANSWER_SECONDS:
                raise NotNow(f"{address or ','.join(self.endpoints)}: {problem}")
            spent += AGAIN_SECONDS
            select.select([], [], [], AGAIN_SECONDS)  # nobody tells when a coordinator has moved

    def _connection(self, address: str) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(address, seconds=REQUEST_SECONDS)
        return self._connections[address]
