"""Idempotent sinks with one sin each; controls are here and in controls_on_database.py."""

from __future__ import annotations

import json
from contextlib import suppress
from zlib import crc32

from sinkproof.canaries.controls_on_database import (
    Asynchronous,
    AsynchronousControl,
    DatabaseContract,
    DatabaseSink,
    IdempotentControl,
    Upserts,
    identities,
)
from sinkproof.canaries.simulated_database import Database
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.subject.claims import Claim


class KeyMadeInOpen(IdempotentControl):
    """R2: rows are identified by a random key of the attempt, so that a replay does not replace them."""

    class make(Upserts):  # noqa: N801
        def open(self, context: Context) -> None:
            super().open(context)
            self.salt = f"{context.random.random()}"

        def key(self, row: Row) -> str:
            return f"{self.salt}-{super().key(row)}"


class KeyWithoutSplit(IdempotentControl):
    """R2: rows are identified by their offset alone, which two splits share. (The opposite: one key for two.)"""

    class make(Upserts):  # noqa: N801
        def key(self, row: Row) -> str:
            return f"{row.offset}"


class HashOfBatch(IdempotentControl):
    """R17: rows are identified by the contents of their batch, which a replay may cut in another way."""

    class make(Upserts):  # noqa: N801
        def write(self, batch: Batch) -> None:
            name = crc32(repr(identities(batch)).encode())
            self.request("upsert", [(f"{name}-{number}", 0, row) for number, row in enumerate(identities(batch))])


class PositionInEpoch(IdempotentControl):
    """R17: rows are identified by their position in a checkpoint, which has another number in a replay."""

    class make(Upserts):  # noqa: N801
        def open(self, context: Context) -> None:
            super().open(context)
            self.checkpoint_id, self.position = context.checkpoint_id_covered, 0

        def key(self, row: Row) -> str:
            self.position += 1
            return f"{self.context.subtask}-{self.checkpoint_id}-{self.position}"

        def snapshot(self, checkpoint_id: int) -> bytes:
            self.checkpoint_id, self.position = checkpoint_id, 0
            return b""


# -- the last row of each key ----------------------------------------------------------------------


class LastPerKeyControl(IdempotentControl):
    """Correct: a row's timestamp grows with its offset."""

    rows = "upsert"

    class make(Upserts):  # noqa: N801
        def key(self, row: Row) -> str:
            return row.key

        def timestamp(self, row: Row) -> int:
            return row.offset


class TimestampIsCheckpoint(LastPerKeyControl):
    """R18: rows of one checkpoint have the same timestamp, so that the first of a key may win over the last."""

    class make(LastPerKeyControl.make):  # noqa: N801
        checkpoint_id = 0

        def timestamp(self, row: Row) -> int:
            return self.checkpoint_id

        def snapshot(self, checkpoint_id: int) -> bytes:
            self.checkpoint_id = checkpoint_id
            return b""


class TimestampFallsBack(LastPerKeyControl):
    """R18: the timestamp is the number of rows of this attempt, so that a newer attempt's rows have older timestamps.

    (The opposite: timestamps that differ, but do not grow.)
    """

    class make(LastPerKeyControl.make):  # noqa: N801
        seen = 0

        def timestamp(self, row: Row) -> int:
            self.seen += 1
            return self.seen


class TimestampIsClock(LastPerKeyControl):
    """R18: the timestamp is the time of the write, by a clock that ticks slowly, and may go back."""

    class make(LastPerKeyControl.make):  # noqa: N801
        def timestamp(self, row: Row) -> int:
            return int(self.context.clock())


# -- counters --------------------------------------------------------------------------------------


class CountingControl(DatabaseContract):
    """Correct: the server counts each name once, so that a request may be sent again."""

    claims = Claim.EXACTLY_ONCE

    class make(DatabaseSink):  # noqa: N801
        def __init__(self, database: Database) -> None:
            super().__init__(database)
            self.pending: dict[str, list[str]] = {}

        def open(self, context: Context) -> None:
            super().open(context)
            for _, state in context.restored:
                for name, keys in json.loads(state).items():
                    self.count(name, keys)

        def snapshot(self, checkpoint_id: int) -> bytes:
            self.pending[f"{self.me}-{checkpoint_id}"] = [f"{split}-{offset}" for split, offset in self.rows]
            self.rows = []
            return json.dumps(self.pending).encode()

        def notify_complete(self, checkpoint_id: int) -> None:
            for name in list(self.pending):
                if int(name.rpartition("-")[2]) <= checkpoint_id:
                    self.count(name, self.pending.pop(name))

        def count(self, name: str, keys: list[str]) -> None:
            try:
                self.request("add", name, keys)
            except OSError:
                self.request("add", name, keys)


class CounterRetried(CountingControl):
    """R18: increments without an answer are sent again as new ones, and may count twice."""

    class make(CountingControl.make):  # noqa: N801
        def count(self, name: str, keys: list[str]) -> None:
            try:
                self.request("add", name, keys)
            except OSError:
                self.request("add", f"{name}-again", keys)


class CounterNotRetried(CountingControl):
    """R18: increments without an answer are ignored, and may never count. (The opposite of the above.)"""

    class make(CountingControl.make):  # noqa: N801
        def count(self, name: str, keys: list[str]) -> None:
            with suppress(OSError):
                self.request("add", name, keys)


class AsksThenSends(CountingControl):
    """R7: an increment that the server does not know may be in flight: it is sent again, and arrives twice."""

    class make(CountingControl.make):  # noqa: N801
        def count(self, name: str, keys: list[str]) -> None:
            if not self.request("has_added", name):
                self.request("add_again", name, keys)


# -- a producer that sends in the background -------------------------------------------------------


class LateErrorDropped(AsynchronousControl):
    """R4: a delivery error arrives later, and the sink does not keep it until the next snapshot."""

    class make(Asynchronous):  # noqa: N801
        def delivered(self, error: OSError | None) -> None:
            self.error_last = error  # never read


class NoFlushOfProducer(AsynchronousControl):
    """R4: acknowledges rows that the producer has not sent yet."""

    class make(Asynchronous):  # noqa: N801
        def snapshot(self, checkpoint_id: int) -> bytes:
            if self.error is not None:
                raise self.error
            return b""

        def end_of_input(self) -> None:
            self.producer.flush()
