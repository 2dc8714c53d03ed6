"""Small sinks for the explorer: right ones, and ones with bugs that only the explorer finds.

Each keeps rows in a dictionary that stands for an external system; every method of `Store` is one effect.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from typing import Any

from sinkproof.sink_adapters.protocol import Batch, Context, Fenced
from sinkproof.subject.claims import Claim

Rows = list[tuple[int, int]]


class Store:
    """Slots by name; each holds parts by name."""

    def __init__(self) -> None:
        self.slots: dict[str, dict[str, Rows]] = {}
        self.fences: dict[int, int] = {}
        self.version = 0

    def fence(self, subtask: int, generation: int) -> None:
        self.fences[subtask] = max(generation, self.fences.get(subtask, 0))
        self.version += 1

    def check(self, subtask: int, generation: int) -> None:
        if self.fences.get(subtask, 0) > generation:
            raise Fenced(f"generation {generation} was replaced")

    def put(self, slot: str, part: str, rows: Rows, *, by: tuple[int, int]) -> None:
        self.check(*by)
        self.slots.setdefault(slot, {})[part] = list(rows)
        self.version += 1

    def move(self, moves: Iterable[tuple[str, str]], *, by: tuple[int, int], only: str = "") -> bool:
        """In one step: what is in each first slot (or only this part of it) goes into the second."""
        self.check(*by)
        moved = False
        for source, target in moves:
            found = self.slots.get(source, {})
            for part in [only] if only else list(found):
                if part in found:
                    self.slots.setdefault(target, {})[part] = found.pop(part)
                    moved = True
        self.version += moved
        return moved

    def drop(self, *slots: str, by: tuple[int, int]) -> None:
        self.check(*by)
        for slot in slots:
            self.slots.pop(slot, None)
        self.version += 1


class Contract:
    """`kind`, the sink, is set by the contracts below."""

    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    marks_points = True
    kind: type[Careful]

    def setup(self, scratch: Any) -> None:
        self.store = Store()

    def sink(self, scratch: Any) -> Careful:
        return self.kind(self.store)

    def committed(self, scratch: Any) -> list[tuple[int, int]]:
        return [row for rows in self.store.slots.get("committed", {}).values() for row in rows]

    def version(self, scratch: Any) -> int:
        return self.store.version

    def canonical(self, scratch: Any, live: str) -> str:
        return repr([(name, sorted(slot.items())) for name, slot in sorted(self.store.slots.items()) if slot])

    def freeze(self, scratch: Any) -> bytes:
        return pickle.dumps((self.store.slots, self.store.fences))

    def thaw(self, scratch: Any, frozen: bytes) -> None:
        self.store.slots, self.store.fences = pickle.loads(frozen)
        self.store.version += 1


class Careful:
    """Right: parts are staged with the snapshot and moved when their checkpoint is complete."""

    def __init__(self, store: Store) -> None:
        self.store, self.rows, self.pending = store, Rows(), dict[str, int]()

    def open(self, context: Context) -> None:
        self.context, self.me = context, (context.subtask, context.generation)
        self.staging = f"staging-{context.subtask}"
        restored = context.checkpoint_id_covered
        for _, state in context.restored:
            self.pending |= json.loads(state)
        self.store.fence(*self.me)
        self.rotate()
        context.reach("fence.after")
        self.commit(restored)
        self.pending.clear()
        self.sweep()

    def rotate(self) -> None:
        """Nothing to move: parts have unique names."""

    def sweep(self) -> None:
        self.store.drop(self.staging, by=self.me)

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch.rows]

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = f"{self.context.subtask}-{self.context.generation}-{checkpoint_id}"
        self.store.put(self.staging, name, self.rows, by=self.me)
        self.pending[name], self.rows = checkpoint_id, []
        self.context.reach("stage.after")
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id: int) -> Iterable[int]:
        self.commit(checkpoint_id)
        return ()

    def settle(self, now: float) -> Iterable[int]:
        return ()

    def is_covered(self, checkpoint: int, by: int) -> bool:
        return checkpoint <= by

    def commit(self, checkpoint_id: int) -> None:
        for name, checkpoint in list(self.pending.items()):
            if self.is_covered(checkpoint, checkpoint_id):
                self.context.reach("commit.before")
                self.move_out(name)
                self.context.reach("commit.after")
                del self.pending[name]

    def move_out(self, name: str) -> None:
        self.store.move([(self.staging, "committed")], only=name, by=self.me)

    def notify_aborted(self, checkpoint_id: int) -> None:
        pass

    def end_of_input(self) -> None:
        pass

    def close(self) -> None:
        pass


class KeepsTwoBackups(Careful):
    """Each recovery moves what is staged one backup further, and commits from there; there are two. The third death
    within recoveries drops rows of a complete checkpoint.
    """

    def rotate(self) -> None:
        first, second = f"{self.staging}.1", f"{self.staging}.2"
        self.store.drop(f"{self.staging}.old", by=self.me)
        self.store.move([(second, f"{self.staging}.old"), (first, second), (self.staging, first)], by=self.me)

    def move_out(self, name: str) -> None:
        places = (self.staging, f"{self.staging}.1", f"{self.staging}.2")
        self.store.move([(place, "committed") for place in places], only=name, by=self.me)

    def sweep(self) -> None:
        self.store.drop(self.staging, f"{self.staging}.1", f"{self.staging}.2", f"{self.staging}.old", by=self.me)


class KeepsOneBackup(KeepsTwoBackups):
    """The same, but the second death drops them."""

    def rotate(self) -> None:
        self.store.drop(f"{self.staging}.old", by=self.me)
        self.store.move([(f"{self.staging}.1", f"{self.staging}.old")], by=self.me)
        self.store.move([(self.staging, f"{self.staging}.1")], by=self.me)


class ComparesAsText(Careful):
    """Checkpoint 9 is not covered by checkpoint 10, because of the order of texts."""

    def is_covered(self, checkpoint: int, by: int) -> bool:
        return str(checkpoint) <= str(by)


class FirstMakesTheList(Careful):
    """One list per checkpoint, which subtask 0 begins and subtask 1 extends: wrong if 1 comes first."""

    def move_out(self, name: str) -> None:
        checkpoint = self.pending[name]
        rows = self.store.slots.get(self.staging, {}).get(name)
        if rows is None:
            return
        before = self.store.slots.get("committed", {}).get(f"list-{checkpoint}", [])
        kept = [] if self.context.subtask == 0 else [row for row in before if row not in rows]
        self.store.put("committed", f"list-{checkpoint}", [*kept, *rows], by=self.me)


class DependsOnParity(Careful):
    """Right, but every other generation takes one step more: it depends on a number, not only on its rank."""

    def sweep(self) -> None:
        if self.context.generation % 2:
            self.store.put("marks", str(self.context.subtask), [], by=self.me)
        super().sweep()


class CarefulContract(Contract):
    kind = Careful


class BackupsContract(Contract):
    kind = KeepsTwoBackups


class OneBackupContract(Contract):
    kind = KeepsOneBackup


class TextContract(Contract):
    kind = ComparesAsText


class ListContract(Contract):
    kind = FirstMakesTheList


class ParityContract(Contract):
    kind = DependsOnParity
