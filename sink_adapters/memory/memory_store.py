"""An external system in memory: the memory targets write to it, an independent reader reads it.

Every method that changes something is one atomic effect and increments `version`; every method from which a client may
learn something increments `reads`. The store is no part of any sink: a sink's crash never stops it in the middle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sinkproof.sink_adapters.protocol import CommitOutcome, Fenced, Identity, Row, without_line_points
from sinkproof.sink_adapters.strategies.ownership_and_names import GARBAGE_COUNTED_MOST, Owner, Transaction, is_named_in

Token = tuple[str, int]  # (sink id, generation) of the client
Rows = tuple[Row, ...]
Order = tuple[int, int, int]
COMMITTED: Final = CommitOutcome.COMMITTED


@without_line_points
class MemoryStore:
    """Transactions, a log, an upsert table with its changelog, a committer's records, masked segments with markers.

    `transaction_timeout`: seconds on the store's own clock, after which its janitor aborts what is not committed.
    Without a clock the store uses the times that clients send.
    """

    def __init__(self, *, clock: Callable[[], float] | None = None, transaction_timeout: float | None = None) -> None:
        self.version = self.reads = 0
        self._clock, self._timeout = clock, transaction_timeout
        self.thaw(((), (), (), (), (), (), (), (), (), ()))

    # -- transactions -----------------------------------------------------------------------------

    def fence(self, token: Token) -> None:
        """After this, attempts of the same sink with a smaller generation are refused."""
        self._check(token)
        if self.fences.get(token[0]) != token[1]:
            self.fences[token[0]] = token[1]
            self.version += 1

    def _check(self, token: Token) -> None:
        self.reads += 1
        fence = self.fences.get(token[0])
        if fence is not None and token[1] < fence:
            raise Fenced(f"generation {token[1]} of {token[0]} has been replaced by {fence}")

    def begin(self, token: Token, name: Transaction, now: float) -> None:
        self._check(token)
        if name in self.opened or name in self.prepared or name in self.committed:
            raise ValueError(f"transaction {name} was begun before: its name is not unique")
        self.opened[name] = ()
        self.began[name] = now if self._clock is None else self._clock()
        self.version += 1

    def write(self, token: Token, name: Transaction, rows: Rows) -> None:
        self.reads += 1
        if token[1] < self.fences.get(token[0], 0):  # as in _check, inlined: the hottest call
            self._check(token)
        self.opened[name] += rows  # KeyError, which is a LookupError: no such transaction is open
        self.version += 1

    def prepare(self, token: Token, name: Transaction) -> None:
        self._run_janitor()
        self._check(token)
        self.prepared[name] = (name.order, self.opened.pop(name))
        self.version += 1

    def commit(self, token: Token, name: str) -> CommitOutcome:
        self._run_janitor()
        self._check(token)
        if name in self.prepared:
            self.committed[name] = self.prepared.pop(name)
            self.began.pop(name, None)
            self.version += 1
            return COMMITTED
        return CommitOutcome.ALREADY if name in self.committed else CommitOutcome.LOST

    def abort(self, token: Token, name: str) -> None:
        self._check(token)
        if self.opened.pop(name, None) is not None or self.prepared.pop(name, None) is not None:
            self.began.pop(name, None)
            self.version += 1

    def _run_janitor(self) -> None:
        """Aborts expired transactions late. A client cannot distinguish this from a janitor that acts in time."""
        self.reads += 1
        if self._timeout is not None and self._clock is not None:
            self.expire(self._clock() - self._timeout)

    def expire(self, before: float) -> None:
        """The janitor of a server: aborts transactions that began before this time (of either clock)."""
        if self._timeout is not None and self._clock is not None:
            before = self._clock() - self._timeout
        self.reads += 1
        late = [name for name, began in self.began.items() if began < before]
        for name in late:
            del self.began[name]
            self.opened.pop(name, None)
            self.prepared.pop(name, None)
        self.version += bool(late)

    def lingering(self, owner: Owner, before_generation: int) -> list[str]:
        """Open or prepared transactions of earlier generations of the owner's old subtasks, by checkpoint."""
        self._run_janitor()
        names = [Transaction.parse(name) for name in (*self.opened, *self.prepared)]
        left = [name for name in names if _is_left(name, owner, before_generation)]
        return [str(name) for name in sorted(left, key=lambda name: name.order)]

    # -- a log, an upsert table, a committer ------------------------------------------------------

    def append(self, rows: Rows) -> None:
        self.log += rows
        self.version += 1

    def upsert(self, entries: Iterable[tuple[str, Row]]) -> None:
        self.changelog += entries
        self.version += 1

    def record(self, name: str) -> None:
        self.recorded[name] = True
        self.version += 1

    def is_recorded(self, name: str) -> bool:
        self.reads += 1
        return name in self.recorded

    # -- masked segments --------------------------------------------------------------------------

    def stage(self, segment: Transaction, rows: Rows) -> None:
        self.staged[segment] = self.staged.get(segment, ()) + rows
        self.version += 1

    def reveal(self, token: Token, checkpoint_id: int) -> CommitOutcome:
        """The greatest marker of each generation counts; a late smaller one changes nothing."""
        self.reads += 1
        if self.markers.get(token, 0) >= checkpoint_id:
            return CommitOutcome.ALREADY
        self.markers[token] = checkpoint_id
        self.version += 1
        return CommitOutcome.COMMITTED

    def collect(self, owner: Owner, before_generation: int) -> None:
        self.reads += 1
        garbage = [
            name for name in self.staged if _is_left(name, owner, before_generation) and not self._revealed(name)
        ]
        for name in garbage:
            del self.staged[name]
        self.version += bool(garbage)

    def _revealed(self, segment: Transaction) -> bool:
        return segment.sequence <= self.markers.get((segment.sink_id, segment.generation), 0)

    # -- the independent reader -------------------------------------------------------------------

    def read(self) -> list[Identity]:
        """What is visible now: committed transactions, the log, the table, revealed segments."""
        return [row[:2] for row in self.read_rows()]

    def read_rows(self) -> list[Row]:
        transactions = sorted(self.committed.values()) if self.committed else []
        found = [row for _, rows in transactions for row in rows]
        if self.log:
            found += self.log
        if self.changelog:
            found += sorted(dict(self.changelog).values())
        if self.staged:
            found += self._read_revealed()
        return found

    def _read_revealed(self) -> list[Row]:
        segments = sorted((name.order, rows) for name, rows in self.staged.items() if self._revealed(name))
        return [row for _, rows in segments for row in rows]

    def revealed(self) -> list[int]:
        """Checkpoints with a marker."""
        return sorted(self.markers.values())

    def read_changes(self) -> list[Identity]:
        """What a reader that follows the table's changes has observed, repeats included."""
        return [row[:2] for _, row in self.changelog]

    def effects(self) -> int:
        """The number of effects: equal as long as nothing has changed."""
        return self.version

    def requests(self) -> int:
        """The number of requests: equal as long as no client could have observed a change."""
        return self.version + self.reads

    def residue(self) -> list[str]:
        self._run_janitor()
        masked = [str(name) for name in self.staged if not self._revealed(name)]
        return sorted([*self.opened, *self.prepared, *masked])

    # -- copies and text --------------------------------------------------------------------------

    def freeze(self) -> tuple[Any, ...]:
        """The whole state, as values that are never changed."""
        transactions = dict(self.opened), dict(self.prepared), dict(self.committed), dict(self.fences), dict(self.began)
        others = dict(self.recorded), dict(self.staged), dict(self.markers), self.log, tuple(self.changelog)
        return transactions + others

    def thaw(self, frozen: Sequence[Any]) -> None:
        """Restores the exact state that was frozen. `version` still rises."""
        self.opened: dict[str, Rows] = dict(frozen[0])
        self.prepared: dict[str, tuple[Order, Rows]] = dict(frozen[1])
        self.committed: dict[str, tuple[Order, Rows]] = dict(frozen[2])
        self.fences: dict[str, int] = dict(frozen[3])
        self.began: dict[str, float] = dict(frozen[4])
        self.recorded: dict[str, bool] = dict(frozen[5])
        self.staged: dict[Transaction, Rows] = dict(frozen[6])
        self.markers: dict[Token, int] = dict(frozen[7])
        self.log: Rows = tuple(frozen[8])
        self.changelog: list[tuple[str, Row]] = list(frozen[9])
        self.version += 1

    def canonical(self, live: str) -> str:
        """Text of all state that can still matter. `live`: state kept elsewhere that may name transactions in here.

        A name that does not occur in `live` can never be requested again, because new attempts make new names. Rows
        committed under it appear without the name; rows that can only be removed are left out, and masked segments
        that can never be revealed are counted up to two. How often a log has a row is left out, too: no sink reads it,
        no pair on a log claims that rows are not repeated, and including it would multiply the states by the square
        of each part's rows.
        """
        committed = sorted(self.committed.items(), key=lambda item: item[1][0])
        named = [item for item in committed if is_named_in(item[0], live)]
        unnamed = [row for name, (_, rows) in committed if not is_named_in(name, live) for row in rows]
        hidden = [item for item in sorted(self.staged.items()) if not self._revealed(item[0])]
        garbage = Counter((name.sink_id, name.subtask) for name, _ in hidden if str(name.generation) not in live)
        markers = [(token, marker) for token, marker in sorted(self.markers.items()) if str(token[1]) in live]
        parts = (
            sorted(self.opened),
            [(name, rows if is_named_in(name, live) else None) for name, rows in sorted(self.prepared.items())],
            sorted(self.fences.items()),
            named,
            unnamed,
            sorted(name for name in self.recorded if is_named_in(name, live)),
            [(name, rows) for name, rows in hidden if str(name.generation) in live],
            [(owner, min(number, GARBAGE_COUNTED_MOST)) for owner, number in sorted(garbage.items())],
            markers,
            self._read_revealed(),
            sorted(set(self.log)),
            sorted(set(self.changelog)),
        )
        return repr(parts)


def _is_left(name: Transaction, owner: Owner, before_generation: int) -> bool:
    return name.sink_id == owner.sink_id and name.generation < before_generation and owner.owns(name.subtask)
