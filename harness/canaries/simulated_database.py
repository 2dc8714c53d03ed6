"""A server in two files, shared by several clients: the target of canaries and controls that need more than files.

Each request is one append to the journal, and its outcome follows from everything before it; so requests of any number
of processes are handled one after the other, and a client that dies meanwhile leaves no request half done. The answer
goes through a file as well. Therefore a request can be lost before it is handled, and its answer after that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Rows = list[list[int]]


class Refused(Exception):
    """The server has fenced this generation."""


class Tables:
    """What the server holds. Each method handles one request and returns its answer, in plain JSON.

    `limit`: seconds after which it aborts what is prepared, and deletes markers of `reveal_for_a_while`.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit, self.now = limit, 0.0
        self.fences: dict[str, int] = {}  # owner -> the least generation that may still prepare or stage
        self.prepared: dict[str, tuple[str, int, Rows, float]] = {}  # name -> owner, generation, rows, since when
        self.committed: dict[str, bool] = {}
        self.visible: Rows = []
        self.table: dict[str, tuple[int, list[int]]] = {}  # key -> timestamp, row
        self.counts: dict[str, int] = {}
        self.added: dict[str, bool] = {}
        self.notes: dict[str, str] = {}
        self.staged: dict[str, tuple[str, int, int, Rows]] = {}  # name -> owner, generation, checkpoint, rows
        self.markers: dict[str, int] = {}
        self.kept_for_a_while: dict[str, float] = {}  # marker -> since when

    def pass_time(self, now: float) -> None:
        self.now = max(now, self.now)
        if self.limit is not None:
            since = self.now - self.limit
            self.prepared = {name: entry for name, entry in self.prepared.items() if entry[3] > since}
            for marker in [marker for marker, when in self.kept_for_a_while.items() if when <= since]:
                del self.markers[marker], self.kept_for_a_while[marker]

    # -- transactions -----------------------------------------------------------------------------

    def fence(self, owners: Sequence[str], generation: int) -> None:
        for owner in owners:
            self._check(owner, generation)
            self.fences[owner] = generation

    def _check(self, owner: str, generation: int) -> None:
        if generation < self.fences.get(owner, 0):
            raise Refused(f"generation {generation} of {owner} has been replaced")

    def prepare(self, name: str, place: tuple[str, int], rows: Rows) -> None:
        owner, generation = place
        self._check(owner, generation)
        self.committed.pop(name, None)  # a name may come again, as the ids of Kafka's transactions do
        self.prepared[name] = (owner, generation, rows, self.now)

    def commit(self, name: str) -> str:
        if name in self.prepared:
            self.visible = self.visible + self.prepared.pop(name)[2]
            self.committed[name] = True
            return "committed"
        return "already" if name in self.committed else "unknown"

    def abort(self, name: str) -> None:
        self.prepared.pop(name, None)

    def abort_all(self, place: tuple[str, int], beginning: str) -> None:
        """Of any owner and generation."""
        self._check(*place)
        self.prepared = {name: entry for name, entry in self.prepared.items() if not name.startswith(beginning)}

    def sweep(self, owners: Sequence[str] | None, generation: int) -> None:
        """Aborts transactions of earlier generations of these owners; None: of all owners."""
        left = [
            name
            for name, (owner, by, _, _) in self.prepared.items()
            if by < generation and (owners is None or owner in owners)
        ]
        for name in left:
            del self.prepared[name]

    def abort_all_but_newest(self) -> None:
        newest = {owner: name for name, (owner, _, _, _) in self.prepared.items()}
        self.prepared = {name: entry for name, entry in self.prepared.items() if newest[entry[0]] == name}

    # -- rows that are visible at once ------------------------------------------------------------

    def append(self, rows: Rows) -> None:
        self.visible = self.visible + rows

    def upsert(self, entries: Sequence[tuple[str, int, list[int]]]) -> None:
        """(key, timestamp, row): the last write wins; of two at the same time, the first."""
        for key, timestamp, row in entries:
            if key not in self.table or self.table[key][0] < timestamp:
                self.table[key] = (timestamp, row)

    def put(self, key: str, value: str) -> None:
        self.notes[key] = value

    def get(self, key: str) -> str | None:
        return self.notes.get(key)

    def take(self, place: tuple[str, int], letters: str) -> str:
        """The first letter that this owner has not taken yet; when it has all of them, the last."""
        self._check(*place)
        taken = self.notes.get(place[0], "")
        letter = next((letter for letter in letters if letter not in taken), letters[-1])
        self.notes[place[0]] = "".join(sorted({*taken, letter}))
        return letter

    def add(self, name: str, keys: Sequence[str]) -> None:
        """Once for each name, however often the request comes."""
        if name not in self.added:
            self.add_again(name, keys)

    def add_again(self, name: str, keys: Sequence[str]) -> None:
        for key in keys:
            self.counts[key] = self.counts.get(key, 0) + 1
        self.added[name] = True

    def has_added(self, name: str) -> bool:
        return name in self.added

    # -- rows that a marker reveals ---------------------------------------------------------------

    def stage(self, name: str, place: tuple[str, int, int], rows: Rows) -> None:
        owner, generation, checkpoint_id = place
        self._check(owner, generation)
        self.staged[name] = (owner, generation, checkpoint_id, rows)

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        self.markers[str(generation)] = max(checkpoint_id, self.markers.get(str(generation), 0))

    def reveal_for_a_while(self, generation: int, checkpoint_id: int) -> None:
        self.reveal(generation, checkpoint_id)
        self.kept_for_a_while[str(generation)] = self.now

    def collect(self, owners: Sequence[str], generation: int) -> None:
        """Removes rows of earlier generations of these owners that no marker covers."""
        for name, (owner, by, _, _) in list(self.staged.items()):
            if owner in owners and by < generation and not self._revealed(name):
                del self.staged[name]

    def _revealed(self, name: str) -> bool:
        _, generation, checkpoint_id, _ = self.staged[name]
        return checkpoint_id <= self.markers.get(str(generation), 0)

    # -- for readers --------------------------------------------------------------------------------

    def rows(self) -> Iterator[tuple[int, int]]:
        shown = [rows for name, (_, _, _, rows) in self.staged.items() if self._revealed(name)]
        upserted = [row for _, row in self.table.values()]
        for split, offset in [*self.visible, *(row for rows in shown for row in rows), *upserted]:
            yield split, offset
        for key, times in self.counts.items():
            split, offset = map(int, key.split("-"))
            yield from [(split, offset)] * times

    def text(self) -> str:
        """Everything but the times, which have no effect without a limit."""
        prepared = sorted((name, entry[:3]) for name, entry in self.prepared.items())
        rest = (self.table, self.counts, self.added, self.notes, self.staged, self.markers, self.fences)
        return repr((prepared, sorted(self.committed), self.visible, [sorted(table.items()) for table in rest]))

    def hidden(self) -> list[str]:
        return [*self.prepared, *(name for name in self.staged if not self._revealed(name))]


class Database:
    """One client's connection. Opened again by every process. `clock`: the server's, in seconds."""

    def __init__(self, folder: Path, clock: Callable[[], float], *, limit: float | None = None) -> None:
        self.journal, self.answers, self.clock = folder / "journal", folder / "answer", clock
        self.tables, self.position = Tables(limit), 0

    def request(self, name: str, *arguments: Any) -> Any:
        with open(self.journal, "ab", buffering=0) as file:
            file.write(json.dumps([self.clock(), name, arguments]).encode() + b"\n")
            mine = file.tell()
        answer = self._read(mine)
        with open(self.answers, "wb", buffering=0):
            pass
        if isinstance(answer, Refused):
            raise answer
        return answer

    def tables_now(self) -> Tables:
        """For an independent reader."""
        self._read(None)
        self.tables.pass_time(self.clock())
        return self.tables

    def _read(self, end: int | None) -> Any:
        """Handles the requests up to a position. Returns the last answer."""
        answer = None
        try:
            with open(self.journal, "rb", buffering=0) as file:
                file.seek(self.position)
                text = file.read(-1 if end is None else end - self.position)
        except FileNotFoundError:
            return None
        for request in json.loads(b"[%s]" % b",".join(text.splitlines())):  # thousands in a run
            answer = self._handle(*request)
        self.position += len(text)
        return answer

    def _handle(self, at: float, name: str, arguments: Sequence[Any]) -> Any:
        self.tables.pass_time(at)
        try:
            return getattr(self.tables, name)(*arguments)
        except Refused as refused:
            return refused
