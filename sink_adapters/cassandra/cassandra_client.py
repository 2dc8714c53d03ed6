"""Runs statements on Cassandra and decides what is known of their outcome: the only file that uses the driver.

A session never crosses a fork: an inherited one hangs. So each process makes its own, kept with the process id.

A conditional statement (LWT) has three outcomes: applied, another row was there, or unknown. Only a definite answer
counts: after an error the request may still be in flight and be applied later, and a read that does not find the row
proves nothing about that. To find out, the client repeats the statement or sends a competing one.
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

REQUEST_SECONDS: Final = 2.0  # a node answers in milliseconds, or reports within 2 s that it could not
ANSWER_SECONDS: Final = 7.0  # in all: engines consider a call of 10 s hung
AGAIN_SECONDS: Final = 0.2
ROWS_TOGETHER: Final = 100  # rows of one partition in one request: 20,000 to 100,000 rows a second instead of 5,000
REQUESTS_AT_ONCE: Final = 32  # reads of other partitions, on one connection

Values = Sequence[Any]


class NotAcknowledged(Exception):
    """Whether a statement took effect is unknown. The attempt fails, and its successor repeats the statement."""


class InsertResult(NamedTuple):
    """The result of a conditional insert."""

    applied: bool | None  # None: unknown
    found: Any = None  # the row that was already there, by column

    @property
    def outcome(self) -> CommitOutcome:
        """For a row that every attempt would write equally, so that an earlier insert is as good as this one."""
        if self.applied is None:
            return CommitOutcome.RETRY
        return CommitOutcome.COMMITTED if self.applied else CommitOutcome.ALREADY


class CassandraClient:
    """Statements in one keyspace, written {ks} in their text. Each text is prepared once."""

    def __init__(self, endpoint: str, keyspace: str) -> None:
        self.endpoint, self.keyspace = endpoint, keyspace
        self._prepared: dict[str, PreparedStatement] = {}
        self._pid = 0
        self._session: Session | None = None

    # -- statements -------------------------------------------------------------------------------

    def write(self, text: str, values: Values) -> None:
        """An idempotent statement, repeated until it is acknowledged."""
        self._until_answered(lambda: self._run(text, values))

    def write_together(self, text: str, rows: Sequence[Values]) -> None:
        """The same for rows of one partition, many in one request; each request is atomic."""
        for begin in range(0, len(rows), ROWS_TOGETHER):
            some = rows[begin : begin + ROWS_TOGETHER]
            self._until_answered(partial(self._run_batch, text, some))

    def write_once(self, text: str, values: Values) -> None:
        """A statement that is not idempotent, such as adding to a counter: sent once, whatever its outcome."""
        try:
            self._run(text, values)
        except failures() as error:
            raise NotAcknowledged(f"{text}: {error_text(error)}") from error

    def read(self, text: str, values: Values, *, serial: bool = False) -> list[Any]:
        """Rows as tuples. `serial`: includes conditional statements in flight that are decided."""
        found: list[Any] = self._until_answered(
            lambda: list(self._run(text, values, profile="serial" if serial else ""))
        )
        return found

    def read_many(self, text: str, partitions: Iterable[Values]) -> list[list[Any]]:
        """The rows of each."""
        from cassandra.concurrent import execute_concurrent_with_args

        chosen = list(partitions)

        def run() -> list[list[Any]]:
            session, statement = self._own_session(), self._statement(text)
            answers = execute_concurrent_with_args(session, statement, chosen, concurrency=REQUESTS_AT_ONCE)
            return [list(_counted(answer.result_or_exc)) for answer in answers]

        return self._until_answered(run) if chosen else []

    def insert_if_absent(self, text: str, values: Values) -> InsertResult:
        """A conditional insert, sent once. If the outcome is unknown, the caller sends the same or a competing one."""
        try:
            answer = self._run(text, values)
        except failures() as error:
            if is_refused(error):
                raise
            return InsertResult(None)
        row = answer.one()
        return InsertResult(bool(row[0]), None if row[0] else row)

    def define(self, statements: Iterable[str]) -> None:
        """Keyspaces and tables, one after the other."""
        for text in statements:
            self._until_answered(partial(self._define, text))

    def close(self) -> None:
        """Does not wait for requests in flight: what was not acknowledged is not promised."""
        if self._session is not None and self._pid == os.getpid():
            self._session.cluster.shutdown()
        self._session = None
        self._prepared.clear()

    # -- sessions ---------------------------------------------------------------------------------

    def _run(self, text: str, values: Values, *, profile: str = "") -> Any:
        from cassandra.cluster import EXEC_PROFILE_DEFAULT

        profile = profile or EXEC_PROFILE_DEFAULT
        return _counted(self._own_session().execute(self._statement(text), values, execution_profile=profile))

    def _define(self, text: str) -> None:
        self._own_session().execute(self._named(text))

    def _run_batch(self, text: str, rows: Sequence[Values]) -> None:
        from cassandra.query import BatchStatement, BatchType

        batch, statement = BatchStatement(BatchType.UNLOGGED), self._statement(text)
        for values in rows:
            batch.add(statement, values)
        _counted(self._own_session().execute(batch))

    def _until_answered(self, request: Callable[[], Any]) -> Any:
        """Repeats until there is an answer. A node that is down refuses at once; with a suspended one the request times
        out.
        """
        from cassandra.cluster import NoHostAvailable

        spent = 0.0
        while True:
            try:
                return request()
            except failures() as error:
                if is_refused(error):
                    raise
                spent += AGAIN_SECONDS if isinstance(error, NoHostAvailable) else REQUEST_SECONDS
                if spent >= ANSWER_SECONDS:
                    raise NotAcknowledged(f"{self.endpoint}: {error_text(error)}") from error
            select.select([], [], [], AGAIN_SECONDS)  # the driver sends no event when a node is back

    def _statement(self, text: str) -> PreparedStatement:
        session = self._own_session()
        if text not in self._prepared:
            self._prepared[text] = session.prepare(self._named(text))
        return self._prepared[text]

    def _named(self, text: str) -> str:
        """The name is put into the text: with a session in a keyspace, nodes log a warning for each statement."""
        return text.replace("{ks}", self.keyspace)

    def _own_session(self) -> Session:
        if self._session is None or self._pid != os.getpid():
            self._prepared, self._session, self._pid = {}, connect(self.endpoint), os.getpid()
        return self._session


class TargetWithClient:
    """The base of targets: a client of their own. `target`: the name under which readers know its rows."""

    def __init__(self, client: CassandraClient, target: str) -> None:
        self.client, self.target = client, target

    def close(self) -> None:
        self.client.close()


def _counted(answer: Any) -> Any:
    SENT.add(answer.response_future.request_encoded_size or 0)
    return answer


def connect(endpoint: str) -> Session:
    """A session of this process. Every option that matters to correctness is set here or in `profile`."""
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster
    from cassandra.policies import ConstantReconnectionPolicy

    hosts = [address.rpartition(":")[0] for address in endpoint.split(",")]
    several = len(hosts) > 1
    cluster = Cluster(
        hosts,
        port=int(endpoint.rpartition(":")[2]),
        protocol_version=5,  # saves a negotiation; statements may name their keyspace
        execution_profiles={EXEC_PROFILE_DEFAULT: profile(), "serial": profile(serial=True)},
        reconnection_policy=ConstantReconnectionPolicy(AGAIN_SECONDS, None),  # the default pauses for minutes
        # The driver sends 4 KiB at a time: without this, larger requests wait 40 ms for an acknowledgement.
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        connect_timeout=REQUEST_SECONDS,
        control_connection_timeout=REQUEST_SECONDS,
        # With one node no token map is needed: a new session takes 35 ms instead of 560.
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
        retry_policy=FallthroughRetryPolicy(),  # this file, not the driver, decides whether a repetition is harmless
        consistency_level=ConsistencyLevel.SERIAL if serial else ConsistencyLevel.QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,  # of conditional statements: one decision for all nodes
        request_timeout=REQUEST_SECONDS,
        row_factory=tuple_factory,
    )


def failures() -> tuple[type[Exception], ...]:
    """All exceptions of the driver that are caused by a node or a connection."""
    from cassandra import DriverException
    from cassandra.cluster import NoHostAvailable
    from cassandra.connection import ConnectionException
    from cassandra.protocol import ErrorMessage

    return DriverException, NoHostAvailable, ConnectionException, ErrorMessage


def is_refused(error: BaseException) -> bool:
    """Whether the statement itself is invalid, so that it never takes effect."""
    from cassandra import AuthenticationFailed, RequestValidationException, protocol

    return isinstance(error, (RequestValidationException, AuthenticationFailed, protocol.RequestValidationException))


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
