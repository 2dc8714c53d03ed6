"""Masked: rows go into the target itself, hidden from readers until one atomic marker reveals a whole checkpoint.

The general solution: rows are neither moved nor sent twice, and the marker is one fact, `(generation, checkpoint)`.
Readers show a segment if a marker of its generation is at its sequence or beyond. Markers are added and never
changed, so that a zombie cannot hide what a newer attempt has revealed. One marker serves all subtasks: each of them
staged its part of a complete checkpoint, so that the whole checkpoint becomes visible at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Protocol

from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, call_if_there
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.snapshot_bytes import EMPTY, DamagedState, decode


class MaskedTarget(Protocol):
    """What the target must offer. It may also offer `attach(context)`, `close()`, and

    `seal(segment)`: on return the rows of the segment are durable, and none follows; without it, rows must be durable
        when `stage` returns.
    """

    def stage(self, segment: Transaction, batch: Batch) -> None:
        """Adds rows to a segment that no reader shows yet. Any number of times."""

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome | None:
        """In one atomic step: segments of this generation with a sequence up to the checkpoint become visible.

        Durable on return; repeated after every crash, by every subtask; decided inside the effect, so that it never
        hides what was revealed. RETRY: not known yet.
        """

    def collect(self, owner: Owner, before_generation: int) -> None:
        """Removes segments of earlier generations that no marker covers, of every old subtask that the owner owns."""


class MaskedSink:
    """Exactly once, and a checkpoint becomes visible as a whole, if readers honour the marker."""

    def __init__(self, target: MaskedTarget) -> None:
        self.target = target
        self._segment: Transaction | None = None  # that rows go into; None: no row since the last snapshot
        self._hidden: list[int] = []  # checkpoints with rows of ours, not revealed yet, rising
        self._staged_ever = False

    def open(self, context: Context) -> None:
        """1 reveal what the checkpoint promised, 2 only then collect what no marker covers."""
        self.context, self._reach, self.generation = context, context.reach, context.generation
        self.owner = Owner(context.sink_id, context.subtask, context.parallelism)
        self._covered = self._last = context.checkpoint_id_covered
        self._state = f'{{"generation":{context.generation}}}'.encode()
        call_if_there(self.target, "attach", context)
        for generation in sorted({found for _, state in context.restored for found in _generation_in(state)}):
            self._reveal_restored(generation, self._covered)
        self._reach("collect.before")
        self.target.collect(self.owner, context.generation)
        self._reach("collect.after")

    def _reveal_restored(self, generation: int, checkpoint_id: int) -> None:
        """No later step can retry this reveal, so the attempt fails and the next one repeats it."""
        if self._reveal(generation, checkpoint_id) is CommitOutcome.RETRY:
            raise TimeoutError(f"the target could not reveal checkpoint {checkpoint_id}, which was restored, yet")

    def write(self, batch: Batch) -> None:
        segment = self._segment
        if segment is None:
            segment = self._segment = Transaction.of(self.owner, self.generation, self._last + 1)
            self._staged_ever = True
        self._reach("stage.before")
        self.target.stage(segment, batch)
        self._reach("stage.after")

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self._segment is not None:
            call_if_there(self.target, "seal", self._segment)
            self._segment = None
            self._hidden.append(checkpoint_id)
        self._last = checkpoint_id
        return self._state if self._staged_ever else EMPTY

    def notify_complete(self, checkpoint_id: int) -> Iterable[int]:
        self._covered = max(self._covered, checkpoint_id)
        return self._reveal_covered()

    def settle(self, now: float) -> Iterable[int]:
        return self._reveal_covered()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Its segments stay hidden: the marker of the next complete checkpoint covers them."""

    def _reveal_covered(self) -> Iterable[int]:
        hidden = self._hidden
        covered = bisect_right(hidden, self._covered)  # a number of checkpoints
        if not covered:
            return ()
        if self._reveal(self.generation, self._covered) is CommitOutcome.RETRY:
            return hidden[:covered]
        del hidden[:covered]
        return ()

    def _reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome | None:
        self._reach("reveal.before")
        outcome = self.target.reveal(generation, checkpoint_id)
        self._reach("reveal.after")
        return outcome

    def end_of_input(self) -> None:
        """Nothing to do: the last rows are in the segment that the final checkpoint seals."""

    def close(self) -> None:
        call_if_there(self.target, "close")


def _generation_in(state: bytes) -> list[int]:
    """The generation of the segments that this snapshot covers; none if nothing was staged."""
    content = decode(state, strategy="masked")
    if not content:
        return []
    if not isinstance(content.get("generation"), int):
        raise DamagedState(f"masked: not a state of this strategy: {content!r:.60}")
    return [content["generation"]]
