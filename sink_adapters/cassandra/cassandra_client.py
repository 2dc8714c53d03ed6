"""Statements on Cassandra, and what is known when one ends: the one file that knows the driver.

A session never crosses a fork: an inherited one hangs. So it is made by the process that uses it, and found again by
the number of that process.

A conditional statement (LWT) has three ends: it was applied, something else was there, or nobody knows. Nothing but a
definite answer is taken for one: an error may come from a request that is still under way and will be applied later,
and a read that does not find it proves nothing about that. Who needs to know repeats it, or sends a competing one.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sinkproof.sink_adapters.protocol import CommitOutcome
from sinkproof.sink_adapters.request_counts import SENT

if TYPE_CHECKING:
    from cassandra.cluster import ExecutionProfile, Session
    from cassandra.query import PreparedStatement

REQUEST_SECONDS: Final = 2.0  # a node answers in milliseconds, or says within 2 s that it could not
ANSWER_SECONDS: Final = 7.0  # in all: engines take a call of 10 s for hung
AGAIN_SECONDS: Final = 0.2
ROWS_TOGETHER: Final = 100  # of one partition in one request: 20 to 100 thousand rows/s instead of 5
REQUESTS_AT_ONCE: Final = 32  # reads of other partitions, on one connection

Values = Sequence[Any]


class NotAcknowledged(Exception):
    """Whether a statement took effect is not known. The attempt fails, and its successor repeats it."""


class Claim(NamedTuple):
    """What came of a conditional insert."""

    applied: bool | None  # None: not known
    found: Any = None  # the row that was there before, by column

    @property
    def outcome(self) -> CommitOutcome:
        """Of a row that says everything: whoever was first has said the same."""
        if self.applied is None:
            return CommitOutcome.RETRY
        return CommitOutcome.COMMITTED if self.applied else CommitOutcome.ALREADY


class CassandraClient:
    """Statements in one keyspace, which they call {ks}. The same text is prepared once."""

    def __init__(self, endpoint: str, keyspace: str) -> None:
        self.endpoint, self.keyspace = endpoint, keyspace
        self._prepared: dict[str, PreparedStatement] = {}
        self._pid = 0
        self._session: Session | None = None

    # -- what is asked ----------------------------------------------------------------------------

    def write(self, text: str, values: Values) -> None:
        """A statement that does no harm when it is repeated: it is, until somebody has acknowledged it."""
        self._persist(lambda: self._run(text, values))

    def write_together(self, text: str, rows: Sequence[Values]) -> None:
        """The same for rows of one partition, many in one request: each request takes effect as a whole."""
        for begin in range(0, len(rows), ROWS_TOGETHER):
            some = rows[begin : begin + ROWS_TOGETHER]
            self._persist(partial(self._run_batch, text, some))

    def write_once(self, text: str, values: Values) -> None:
        """A statement that changes more each time, like adding to a counter: it is sent once, whatever comes of it."""
        try:
            self._run(text, values)
        except failures() as error:
            raise NotAcknowledged(f"{text}: {told(error)}") from error

    def read(self, text: str, values: Values, *, serial: bool = False) -> list[Any]:
        """Rows as tuples. `serial`: what conditional statements under way have decided is finished first, and seen."""
        found: list[Any] = self._persist(lambda: list(self._run(text, values, profile="serial" if serial else "")))
        return found

    def read_many(self, text: str, partitions: Iterable[Values]) -> list[list[Any]]:
        """The rows of each."""
        from cassandra.concurrent import execute_concurrent_with_args

        chosen = list(partitions)

        def run() -> list[list[Any]]:
            session, statement = self._here(), self._statement(text)
            answers = execute_concurrent_with_args(session, statement, chosen, concurrency=REQUESTS_AT_ONCE)
            return [list(_counted(answer.result_or_exc)) for answer in answers]

        return self._persist(run) if chosen else []

    def claim(self, text: str, values: Values) -> Claim:
        """A conditional insert. Sent once: whoever needs to know more asks again, with the same or a competing one."""
        try:
            answer = self._run(text, values)
        except failures() as error:
            if is_refused(error):
                raise
            return Claim(None)
        row = answer.one()
        return Claim(bool(row[0]), None if row[0] else row)

    def define(self, statements: Iterable[str]) -> None:
        """Keyspaces and tables: one after the other, as a schema wants it."""
        for text in statements:
            self._persist(partial(self._define, text))

    def close(self) -> None:
        """Does not wait for anybody: what was not acknowledged is not promised."""
        if self._session is not None and self._pid == os.getpid():
            self._session.cluster.shutdown()
        self._session = None
        self._prepared.clear()

    # -- how --------------------------------------------------------------------------------------

    def _run(self, text: str, values: Values, *, profile: str = "") -> Any:
        from cassandra.cluster import EXEC_PROFILE_DEFAULT

        profile = profile or EXEC_PROFILE_DEFAULT
        return _counted(self._here().execute(self._statement(text), values, execution_profile=profile))

    def _define(self, text: str) -> None:
        self._here().execute(self._named(text))

    def _run_batch(self, text: str, rows: Sequence[Values]) -> None:
        from cassandra.query import BatchStatement, BatchType

        batch, statement = BatchStatement(BatchType.UNLOGGED), self._statement(text)
        for values in rows:
            batch.add(statement, values)
        _counted(self._here().execute(batch))

    def _persist(self, ask: Callable[[], Any]) -> Any:
        """Until there is an answer. A node that is down refuses at once; one that stands still takes its time."""
        from cassandra.cluster import NoHostAvailable

        spent = 0.0
        while True:
            try:
                return ask()
            except failures() as error:
                if is_refused(error):
                    raise
                spent += AGAIN_SECONDS if isinstance(error, NoHostAvailable) else REQUEST_SECONDS
                if spent >= ANSWER_SECONDS:
                    raise NotAcknowledged(f"{self.endpoint}: {told(error)}") from error
            select.select([], [], [], AGAIN_SECONDS)  # nobody tells when a node is back

    def _statement(self, text: str) -> PreparedStatement:
        session = self._here()
        if text not in self._prepared:
            self._prepared[text] = session.prepare(self._named(text))
        return self._prepared[text]

    def _named(self, text: str) -> str:
        """A session that is in a keyspace would do it, too: nodes warn of those, for each statement."""
        return text.replace("{ks}", self.keyspace)

    def _here(self) -> Session:
        if self._session is None or self._pid != os.getpid():
            self._prepared, self._session, self._pid = {}, connect(self.endpoint), os.getpid()
        return self._session


def _counted(answer: Any) -> Any:
    SENT.add(answer.response_future.request_encoded_size or 0)
    return answer


def connect(endpoint: str) -> Session:
    """A session of this process. Every option that matters to correctness stands here, or in `profile`."""
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster
    from cassandra.policies import ConstantReconnectionPolicy

    hosts = [address.rpartition(":")[0] for address in endpoint.split(",")]
    several = len(hosts) > 1
    cluster = Cluster(
        hosts,
        port=int(endpoint.rpartition(":")[2]),
        protocol_version=5,  # spares a round of guessing; statements may name their keyspace
        execution_profiles={EXEC_PROFILE_DEFAULT: profile(), "serial": profile(serial=True)},
        reconnection_policy=ConstantReconnectionPolicy(AGAIN_SECONDS, None),  # the default gives up for minutes
        # The driver sends 4 KiB at a time: without this, larger requests wait 40 ms for the first part to be heard of.
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        connect_timeout=REQUEST_SECONDS,
        control_connection_timeout=REQUEST_SECONDS,
        # Which node holds which key need not be known where there is one: a new session takes 35 ms instead of 560.
        schema_metadata_enabled=several,
        token_metadata_enabled=several,
        monitor_reporting_enabled=False,
    )
    return cluster.connect()  # each statement names its keyspace


def profile(*, serial: bool = False) -> ExecutionProfile:
    from cassandra import ConsistencyLevel
    from cassandra.cluster import ExecutionProfile
    from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy, TokenAwarePolicy
    from cassandra.query import tuple_factory

    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
        retry_policy=FallthroughRetryPolicy(),  # whether a repetition is harmless is known here, not in the driver
        consistency_level=ConsistencyLevel.SERIAL if serial else ConsistencyLevel.QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,  # of conditional statements: one decision for all nodes
        request_timeout=REQUEST_SECONDS,
        row_factory=tuple_factory,
    )


def failures() -> tuple[type[Exception], ...]:
    """All that the driver raises for what a node or a connection does."""
    from cassandra import DriverException
    from cassandra.cluster import NoHostAvailable
    from cassandra.connection import ConnectionException
    from cassandra.protocol import ErrorMessage

    return DriverException, NoHostAvailable, ConnectionException, ErrorMessage


def is_refused(error: BaseException) -> bool:
    """Whether the statement itself is wrong: then it never takes effect, however often it is sent."""
    from cassandra import AuthenticationFailed, RequestValidationException, protocol

    return isinstance(error, (RequestValidationException, AuthenticationFailed, protocol.RequestValidationException))


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
