"""Write-ahead: rows wait in the checkpoint's state until it is complete; a committer records which parts were sent.

Any target suffices, but a crash while sending, or between sending and recording, sends rows again. Only a target
with idempotent writes, or that records in the same step, prevents such repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Row, call_if_there
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Owner
from sinkproof.sink_adapters.strategies.snapshot_bytes import decode, decode_pending, decode_rows, encode_rows, quoted


class WriteAheadTarget(Protocol):
    """What the target must offer. It may also offer:

    `attach(context)`: first, once per attempt. `close()`: last; may never be called.
    `collect(owner, before_generation)`: removes invisible, partly sent rows of earlier generations.
        Called before anything is published: otherwise each crash in `open` would leave more of them, without bound.
    """

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> object:
        """Sends the rows of one subtask's part of a complete checkpoint; they may be visible at once.

        Called again with the same name after a crash. False or CommitOutcome.RETRY: not now, call again later.
        """


class CheckpointCommitter(Protocol):
    """Records, in a store of its own, which parts were sent. May also offer `attach(context)` and `close()`."""

    def is_committed(self, part: CheckpointPart) -> bool:
        """Whether `record` has ever returned for exactly this part, in any process."""

    def record(self, part: CheckpointPart) -> None:
        """Durable on return."""


# Rows that wait: checkpoint, name, rows, and their JSON fragment for every snapshot until they are sent.
# A plain tuple, because one is made for every snapshot.
Pending = tuple[int, CheckpointPart, tuple[Row, ...], str]


class WriteAheadSink:
    """At least once with any target; effectively once with one that upserts.

    The order of checkpoints is kept: an older part that cannot be sent blocks newer ones and is retried at the
    next notification and by the engine's timer.
    """

    def __init__(self, target: WriteAheadTarget, committer: CheckpointCommitter) -> None:
        self.target, self.committer = target, committer
        self._rows: list[Row] = []  # since the last snapshot
        self._pending: list[Pending] = []  # by checkpoint

    def open(self, context: Context) -> Iterable[int]:
        """1 collect leftovers, 2 send the parts of the checkpoint that the committer has not recorded."""
        self.context, self._reach = context, context.reach
        self.owner = Owner(context.sink_id, context.subtask, context.parallelism)
        self._covered = context.checkpoint_id_covered
        for helper in self._helpers():
            call_if_there(helper, "attach", context)
        if hasattr(self.target, "collect"):
            self._reach("collect.before")
            self.target.collect(self.owner, context.generation)
            self._reach("collect.after")
        for _, state in context.restored:
            content = decode(state, strategy="write-ahead")
            self._pending += decode_pending(content, _pending_from, strategy="write-ahead")
        self._pending.sort()
        return self._publish_covered()

    def _helpers(self) -> list[object]:
        """One object if it is both."""
        return list({id(helper): helper for helper in (self.target, self.committer)}.values())

    def write(self, batch: Batch) -> None:
        self._rows += batch.rows

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self._rows:
            part = CheckpointPart.of(self.owner, checkpoint_id)
            fragment = f"[{quoted(part)},{encode_rows(self._rows)}]"
            self._pending.append((checkpoint_id, part, tuple(self._rows), fragment))
            self._rows = []
        fragments = ",".join([entry[3] for entry in self._pending])
        return f'{{"pending":[{fragments}]}}'.encode()

    def notify_complete(self, checkpoint_id: int) -> Iterable[int]:
        self._covered = max(self._covered, checkpoint_id)
        return self._publish_covered()

    def settle(self, now: float) -> Iterable[int]:
        return self._publish_covered()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Its rows stay pending under its own id: the next complete checkpoint covers them."""

    def _publish_covered(self) -> Iterable[int]:
        """Oldest first. Returns the checkpoints that could not be sent yet."""
        pending, covered = self._pending, self._covered
        while pending and pending[0][0] <= covered:
            _, part, rows, _ = pending[0]
            if not self.committer.is_committed(part) and not self._send(part, rows):
                return sorted({entry[0] for entry in pending if entry[0] <= covered})
            del pending[0]
        return ()

    def _send(self, part: CheckpointPart, rows: tuple[Row, ...]) -> bool:
        reach = self._reach
        reach("publish.before")
        outcome = self.target.publish(part, rows)
        reach("publish.after")
        if outcome is False or outcome is CommitOutcome.RETRY:
            return False
        reach("record.before")
        self.committer.record(part)
        reach("record.after")
        return True

    def end_of_input(self) -> None:
        """Nothing to do: the last rows wait for the final checkpoint."""

    def close(self) -> None:
        for helper in self._helpers():
            call_if_there(helper, "close")


def _pending_from(name: str, encoded: list[Any]) -> Pending:
    """Keeps the name that the old subtask gave it: earlier attempts may have recorded it."""
    part, rows = CheckpointPart.parse(name), decode_rows(encoded)
    return part.checkpoint_id, part, rows, f"[{quoted(part)},{encode_rows(rows)}]"
