"""Two-phase commit: rows go into a transaction of the target, which a complete checkpoint commits.

`snapshot` pre-commits and keeps the handle in the checkpoint; `notify_complete` commits. After a crash in between, the
next attempt commits every handle of the restored checkpoint and aborts everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, TransactionLost, call_if_there
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.snapshot_bytes import decode, decode_pending, decode_value, encode_value
from sinkproof.sink_adapters.strategies.transaction_timeout import Pending, TransactionTimeout

COMMITTED: Final = CommitOutcome.COMMITTED


class TwoPhaseTarget(Protocol):
    """What the target must offer. A plain object with these five methods suffices.

    It may also offer:

    `attach(context)`: first, once per attempt. `close()`: last; may never be called.
    `ready()`: at the end of `open`, when everything of earlier attempts is settled. An attempt creates its own
        resources here: created earlier, each crash in `open` would leave one more, without bound.
    `fence(owner, generation)`: after it returns, attempts of earlier generations that wrote for old subtasks
        of this owner get `Fenced` from begin, write and pre_commit. Commits of handles still work.
    `lingering(owner, before_generation)`: transactions or handles of earlier generations that are neither committed
        nor aborted, of every old subtask that the owner owns. Without it, leftovers of earlier attempts stay.
    `transaction_timeout`: seconds after which the target aborts by itself; None: never.
    `new_user_context()`: called once per subtask of the job, in the first `open` that restores none; JSON or bytes.
    `use_user_contexts(contexts)`: in each `open`: this subtask's own, then those of old subtasks it has taken over.
    """

    def begin(self, transaction: Transaction) -> Any:
        """Before the first row of a transaction. The name is new, and unique for ever.

        A return value other than None is passed to the other calls instead of the name.
        """

    def write(self, transaction: Any, batch: Batch) -> None:
        """Rows that no reader may see yet. Any number of times."""

    def pre_commit(self, transaction: Any) -> Any:
        """On return the rows are durable, and the handle suffices to commit them from any other process.

        The handle is bytes, text, or anything JSON can hold; it is restored equal (tuples as lists).
        """

    def commit(self, handle: Any) -> CommitOutcome | None:
        """Makes the rows visible. Called again after every crash, also if it was committed before: then ALREADY.

        None means COMMITTED. An exception fails the attempt, and the next one commits again.
        """

    def abort(self, transaction: Any) -> None:
        """Undoes one item of `lingering`. A target without `lingering` gets the open transaction of an attempt that is
        closed. May be repeated.
        """


class TwoPhaseCommitSink:
    """Exactly once, if the target keeps its promises. Rows become visible with the checkpoint that covers them.

    An older transaction in doubt delays newer ones, so that the rows of a key never become visible out of order.
    """

    def __init__(self, target: TwoPhaseTarget) -> None:
        self.target = target
        self._timeout = TransactionTimeout(getattr(target, "transaction_timeout", None))
        self.user_context: Any = None
        self._write = target.write
        self._current: Any = None  # the transaction that rows go into; None: no row since the last snapshot
        self._pending: list[Pending] = []  # by checkpoint
        self._user = ""
        self._began: float | None = None

    # -- starting ---------------------------------------------------------------------------------

    def open(self, context: Context) -> Iterable[int]:
        """1 fence earlier attempts, 2 commit what the checkpoint promised, 3 abort everything else of theirs."""
        self.context, self._reach = context, context.reach
        self.owner = Owner(context.sink_id, context.subtask, context.parallelism)
        self._covered = self._last = context.checkpoint_id_covered
        call_if_there(self.target, "attach", context)
        self._restore(context.restored)
        if hasattr(self.target, "fence"):
            self._reach("fence.before")
            self.target.fence(self.owner, context.generation)
            self._reach("fence.after")
        in_doubt = self._commit_covered()
        self._abort_lingering()
        call_if_there(self.target, "ready")
        return in_doubt

    def _restore(self, restored: Sequence[tuple[int, bytes]]) -> None:
        contents = [decode(state, strategy="two-phase") for _, state in restored]
        for content in contents:
            self._pending += decode_pending(content, _pending_from, strategy="two-phase")
        self._pending.sort(key=lambda entry: entry[0])
        self._restore_user([decode_value(*content["user"]) for content in contents if "user" in content])

    def _restore_user(self, contexts: list[Any]) -> None:
        """`contexts`: of old subtasks, in their order; this subtask's own, if present, is the first."""
        if not contexts and hasattr(self.target, "new_user_context"):
            contexts = [self.target.new_user_context()]
        if contexts:
            self.user_context = contexts[0]
            self._user = f',"user":[{encode_value(self.user_context)}]'
            call_if_there(self.target, "use_user_contexts", contexts)

    def _abort_lingering(self) -> None:
        """Aborts all but what is still in doubt, because those rows were promised."""
        if not hasattr(self.target, "lingering"):
            return
        in_doubt = [handle for _, handle, _, _ in self._pending]
        for transaction in self.target.lingering(self.owner, self.context.generation):
            if transaction not in in_doubt:
                self._reach("abort.before")
                self.target.abort(transaction)
                self._reach("abort.after")

    # -- rows and snapshots -----------------------------------------------------------------------

    def write(self, batch: Batch) -> None:
        if self._current is None:
            self._begin()
        self._write(self._current, batch)

    def _begin(self) -> None:
        """Called for the first row only: an empty transaction would be one more that can linger."""
        transaction = Transaction.of(self.owner, self.context.generation, self._last + 1)
        self._reach("begin.before")
        given = self.target.begin(transaction)
        self._current = transaction if given is None else given
        self._began = self._timeout.began(self.context.clock)
        self._reach("begin.after")

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self._current is not None:
            self._reach("pre_commit.before")
            handle = self.target.pre_commit(self._current)
            self._reach("pre_commit.after")
            self._current = None
            self._pending.append(_pending(checkpoint_id, handle, self._began))
        self._last = checkpoint_id
        self._timeout.watch(self._pending, self.context.clock)
        fragments = ",".join([entry[2] for entry in self._pending])
        return f'{{"pending":[{fragments}]{self._user}}}'.encode()

    # -- outcomes ---------------------------------------------------------------------------------

    def notify_complete(self, checkpoint_id: int) -> Iterable[int]:
        self._covered = max(self._covered, checkpoint_id)
        return self._commit_covered()

    def settle(self, now: float) -> Iterable[int]:
        return self._commit_covered()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Its transaction stays pending: the next complete checkpoint covers it."""

    def _commit_covered(self) -> Iterable[int]:
        """Oldest first. Returns the checkpoints that are still in doubt."""
        pending, covered = self._pending, self._covered
        self._timeout.watch(pending, self.context.clock)
        while pending and pending[0][0] <= covered:
            first = pending[0]
            self._reach("commit.before")
            outcome = self.target.commit(first[1])
            self._reach("commit.after")
            if outcome is not COMMITTED and outcome is not None and self._in_doubt(first, outcome):
                return sorted({entry[0] for entry in pending if entry[0] <= covered})
            del pending[0]
        return ()

    def _in_doubt(self, entry: Pending, outcome: object) -> bool:
        if not isinstance(outcome, CommitOutcome):
            raise TypeError(f"commit() returned {outcome!r}; it must return a CommitOutcome, or None for COMMITTED")
        if outcome is CommitOutcome.LOST:
            checkpoint_id, handle, _, began = entry
            age = self._timeout.age(began, self.context.clock)
            raise TransactionLost(
                f"checkpoint {checkpoint_id} of {self.owner} is complete, but its transaction {handle!r} "
                f"can never be committed any more{age}: its rows are gone. Find what removed it"
            )
        return outcome is CommitOutcome.RETRY

    # -- the end ----------------------------------------------------------------------------------

    def end_of_input(self) -> None:
        """Nothing to do: the last rows are in the transaction that the final checkpoint pre-commits."""

    def close(self) -> None:
        """Aborts now if the target cannot list lingering transactions; otherwise the next attempt aborts."""
        if self._current is not None and not hasattr(self.target, "lingering"):
            self._reach("abort.before")
            self.target.abort(self._current)
            self._reach("abort.after")
        self._current = None
        call_if_there(self.target, "close")


def _pending(checkpoint_id: int, handle: Any, began: float | None) -> Pending:
    """A plain tuple on the hot path, with its JSON fragment for every later snapshot."""
    tail = "" if began is None else f",{began!r}"
    return checkpoint_id, handle, f"[{checkpoint_id},{encode_value(handle)}{tail}]", began


def _pending_from(checkpoint_id: int, *rest: Any) -> Pending:
    """`rest`: the kind of the handle, its value, and the time of its begin if the target has a timeout."""
    kind, value, *began = rest
    return _pending(checkpoint_id, decode_value(kind, value), began[0] if began else None)
