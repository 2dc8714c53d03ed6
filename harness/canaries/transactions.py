"""Transactional sinks on a server, with one sin each; everything else is the control's (controls_on_database.py)."""

from __future__ import annotations

import json
from itertools import count

from sinkproof.canaries.controls_on_database import (
    DatabaseContract,
    Identities,
    TimeLimitControl,
    TransactionalControl,
    Transactions,
)
from sinkproof.canaries.simulated_database import Database
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch

# -- what an error means ---------------------------------------------------------------------------


class CleansUpOnAnyError(DatabaseContract):
    """R7: a commit without an answer is taken for failed, and its transaction is aborted."""

    class make(Transactions):  # noqa: N801
        def commit(self, name: str) -> bool:
            if not super().commit(name):
                self.request("abort", name)
            return True


class ResendsInNewTransaction(DatabaseContract):
    """R7: a commit without an answer is taken for failed, and its rows are sent again in another transaction."""

    class make(Transactions):  # noqa: N801
        def __init__(self, database: Database) -> None:
            super().__init__(database)
            self.sent: dict[str, Identities] = {}

        def prepare(self, checkpoint_id: int, rows: Identities) -> str:
            name = super().prepare(checkpoint_id, rows)
            self.sent[name] = rows
            return name

        def commit(self, name: str) -> bool:
            if super().commit(name):
                return True
            if rows := self.sent.get(name):
                self.request("prepare", f"{name}-again", (self.me, self.context.generation), rows)
                return super().commit(f"{name}-again")
            return False


class TakesSilenceForSuccess(DatabaseContract):
    """R6: a commit without an answer is taken for done. (The opposite.)"""

    class make(Transactions):  # noqa: N801
        def commit(self, name: str) -> bool:
            super().commit(name)
            return True


class SwallowsUnknownTransaction(TimeLimitControl):
    """R6: a transaction that the server does not know is ignored, as if it had been committed before."""

    class make(Transactions):  # noqa: N801
        def commit(self, name: str) -> bool:
            try:
                return super().commit(name)
            except LookupError:
                return True


class IgnoresTheTimeLimit(TimeLimitControl):
    """R9: ignores the outcome of a commit, as if a prepared transaction could be committed at any time."""

    class make(Transactions):  # noqa: N801
        def commit(self, name: str) -> bool:
            self.request("commit", name)
            return True


# -- which owner a transaction has -----------------------------------------------------------------


class ReusesProducers(DatabaseContract):
    """R8: transactions are named after a pool of producers, so that a restored handle may mean a later one."""

    class make(Transactions):  # noqa: N801
        def prepare(self, checkpoint_id: int, rows: Identities) -> str:
            producers = (f"{self.me}-producer-{number}" for number in count())
            name = next(producer for producer in producers if producer not in self.pending.values())
            self.request("prepare", name, (self.me, self.context.generation), rows)
            return name


class OnePrefixForTwoSinks(TransactionalControl):
    """R2: transactions are named by subtask and checkpoint, as those of another sink of the same job are."""

    class make(Transactions):  # noqa: N801
        def name(self, checkpoint_id: int) -> str:
            return f"{self.context.subtask}-{self.context.generation}-{checkpoint_id}"


class SweepsOnlyItsOwn(DatabaseContract):
    """R11: transactions that a removed subtask left open are never aborted."""

    class make(Transactions):  # noqa: N801
        def sweep(self) -> None:
            self.request("sweep", [self.me], self.context.generation)


class SweepsAllSubtasks(DatabaseContract):
    """R15: aborts the transactions of all subtasks, also those yet to be committed. (The opposite of the above.)"""

    class make(Transactions):  # noqa: N801
        def sweep(self) -> None:
            self.request("sweep", None, self.context.generation)


class OneMarkerForTwo(DatabaseContract):
    """R13: a checkpoint is two transactions, and the outcome of the first is taken for that of both."""

    class make(Transactions):  # noqa: N801
        def prepare(self, checkpoint_id: int, rows: Identities) -> str:
            name = super().prepare(checkpoint_id, [row for row in rows if not row[0]])
            others = [row for row in rows if row[0]]
            self.request("prepare", f"{name}-second", (self.me, self.context.generation), others)
            return name

        def commit(self, name: str) -> bool:
            if self.request("commit", name) == "committed":
                self.request("commit", f"{name}-second")
            return True


class DropsWhatRemovedSubtasksLeft(DatabaseContract):
    """R14: recovers its own pending transactions, but none of a subtask that the job no longer has."""

    class make(Transactions):  # noqa: N801
        def restored(self) -> list[str]:
            return [
                name
                for subtask, state in self.context.restored
                for name in json.loads(state)
                if subtask == self.context.subtask
            ]


class RestoreErrorMeansEmpty(DatabaseContract):
    """R14: a state in an unexpected form is taken for an empty one."""

    class make(Transactions):  # noqa: N801
        def restored(self) -> list[str]:
            try:
                ((_, state),) = self.context.restored
                return list(json.loads(state))
            except ValueError:
                return []


# -- which checkpoint it belongs to ----------------------------------------------------------------


class AbortClearsBuffer(DatabaseContract):
    """R12: rows of an aborted checkpoint are dropped, although the source does not replay them without a restart."""

    class make(Transactions):  # noqa: N801
        def notify_aborted(self, checkpoint_id: int) -> None:
            if name := self.pending.pop(checkpoint_id, None):
                self.request("abort", name)


class AbortKeepsRowsTwice(DatabaseContract):
    """R12: rows of an aborted checkpoint are written once more, although their transaction is still pending.

    (The opposite of the above.)
    """

    class make(Transactions):  # noqa: N801
        def __init__(self, database: Database) -> None:
            super().__init__(database)
            self.sent: dict[int, Identities] = {}

        def prepare(self, checkpoint_id: int, rows: Identities) -> str:
            self.sent[checkpoint_id] = rows
            return super().prepare(checkpoint_id, rows)

        def notify_aborted(self, checkpoint_id: int) -> None:
            self.rows = self.sent.pop(checkpoint_id, []) + self.rows


class CommitsOnlyTheNotified(DatabaseContract):
    """R12: commits the notified checkpoint only, and forgets older ones, the notifications of which were lost."""

    class make(Transactions):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> list[int]:
            self.pending = {newer: name for newer, name in self.pending.items() if newer >= checkpoint_id}
            return super().notify_complete(checkpoint_id)


class CommitsWhateverIsPending(DatabaseContract):
    """R12: commits newer checkpoints, too, which are not complete. (The opposite of the above.)"""

    class make(Transactions):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> list[int]:
            return super().notify_complete(max(self.pending, default=checkpoint_id))


class CommitsTheOneBefore(DatabaseContract):
    """R5: waits for the next checkpoint before it commits one, and so never commits the last.

    (The opposite of publishing in `snapshot`.)
    """

    class make(Transactions):  # noqa: N801
        def notify_complete(self, checkpoint_id: int) -> list[int]:
            return super().notify_complete(checkpoint_id - 1)


# -- maintenance -----------------------------------------------------------------------------------


class JanitorByAge(DatabaseContract):
    """R15: the server's maintenance aborts all but the newest transaction of a subtask."""

    def maintain(self, scratch: Scratch) -> None:
        self.database(scratch).request("abort_all_but_newest")


# -- several subtasks ------------------------------------------------------------------------------


class MarksFirst(DatabaseContract):
    """R13: the first subtask marks a checkpoint as complete as soon as its own part is committed."""

    claims = Claim.EXACTLY_ONCE | Claim.HONEST_MARKERS

    class make(Transactions):  # noqa: N801
        def settle(self, now: float) -> list[int]:
            unsettled = super().settle(now)
            if not unsettled and not self.context.subtask:
                self.request("put", "success", f"{self.covered}")
            return unsettled

    def complete(self, scratch: Scratch) -> list[int]:
        """The checkpoints that are marked as complete."""
        return list(range(1, 1 + int(self.database(scratch).tables_now().get("success") or 0)))


class CommitsSubtaskBySubtask(DatabaseContract):
    """R13: claims that a checkpoint becomes visible as a whole, but each subtask commits its own part."""

    claims = Claim.EXACTLY_ONCE | Claim.ATOMIC_CHECKPOINT
