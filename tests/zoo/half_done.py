"""Sinks that fail on work that another attempt, subtask or thread has half done. Right: Worker."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from renamed_files import LinkedFiles, Links, OutFolder
from waiting_rows import Waiting, Waits

from sinkproof import Batch, Claim, Context, Scratch


class SharesATemporary(Waits):
    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        final = self.out / self.name(subtask, checkpoint_id)
        if final.exists():
            return
        temporary = self.folder / f"temporary-{self.context.generation}-{checkpoint_id}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, final)


class OneTemporaryForAll(Waiting):
    """Wrong: the other subtask's rows may be in the file by the time it is moved."""

    make = SharesATemporary


class HashesKeys(Waits):
    SHARDS = 4

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset, row.key) for row in batch]  # type: ignore[misc]

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        shards = defaultdict(list)
        for split, offset, key in rows:
            shards[hash(key) % self.SHARDS].append((split, offset))
        for shard, content in shards.items():
            super().publish(subtask, checkpoint_id * self.SHARDS + shard, content)


class ShardsByHash(Waiting):
    """Wrong: the next process hashes strings in another way, and puts what is done already into other files."""

    make = HashesKeys


class RemembersFailures(Waits):
    def open(self, context: Context) -> None:
        self.failed: dict[int, Any] = {}
        super().open(context)

    def notify_complete(self, checkpoint_id: int) -> list[int]:  # type: ignore[override]
        self.failed |= {older: rows for older, rows in self.pending if older <= checkpoint_id}
        self.pending = [entry for entry in self.pending if entry[0] > checkpoint_id]
        return self.settle(0)

    def settle(self, now: float) -> list[int]:
        for checkpoint_id, rows in sorted(self.failed.items()):
            try:
                self.publish(self.context.subtask, checkpoint_id, rows)
            except OSError:
                continue
            del self.failed[checkpoint_id]
        return list(self.failed)


class FailedIsInMemoryOnly(Waiting):
    """Wrong: what failed and will be tried again is in no snapshot."""

    make = RemembersFailures


class UniqueInContent(Waits):
    def write(self, batch: Batch) -> None:
        known = {(key, value, time) for _, _, key, value, time in self.rows}  # type: ignore[misc]
        for row in batch:
            if (row.key, row.value, row.event_time_ms) not in known:
                known.add((row.key, row.value, row.event_time_ms))
                self.rows.append(tuple(row))  # type: ignore[arg-type]

    def publish(self, subtask: int, checkpoint_id: int, rows: Any) -> None:
        super().publish(subtask, checkpoint_id, [(split, offset) for split, offset, *_ in rows])


class EqualMeansTheSame(Waiting):
    """Wrong: two events may be equal in all but their identity."""

    make = UniqueInContent


class Forces(Links):
    """A file in `forced` says of a name that it has been forced: what has none is lost with the power."""

    def open(self, context: Context) -> None:
        self.forced = self.out.parent / "forced"
        self.forced.mkdir(exist_ok=True)
        super().open(context)

    def force(self, kind: str, name: str) -> None:
        (self.forced / f"{kind}-{name}").touch()

    def snapshot(self, checkpoint_id: int) -> bytes:
        state = super().snapshot(checkpoint_id)
        if checkpoint_id in self.pending:
            self.force("staged", self.pending[checkpoint_id])
        return state

    def publish(self, name: str) -> None:
        if (self.out / name).exists():
            return
        os.link(self.staged / name, self.out / name)
        self.force("out", name)


class TakesForForcedWhatIsThere(OutFolder):
    """Wrong: a name that a dead attempt has made, and not forced, is taken for safe."""

    claims: Any = Claim.EXACTLY_ONCE | Claim.SURVIVES_POWER_LOSS

    def sink(self, scratch: Scratch) -> Any:
        return Forces(scratch.path)

    def lose_names(self, scratch: Scratch) -> None:
        for kind in ("staged", "out"):
            for file in (scratch.path / kind).glob("*"):
                if not (scratch.path / "forced" / f"{kind}-{file.name}").exists():
                    file.unlink()

    lose_power = lose_bytes = lose_names


class TheSameAndCopied(TakesForForcedWhatIsThere, LinkedFiles):
    """Wrong in the same way."""


class WritesBeside(Links):
    """A thread writes the part between two calls; the vote waits for it."""

    def open(self, context: Context) -> None:
        super().open(context)
        self.parts: queue.Queue[tuple[Path, str] | None] = queue.Queue()
        self.part = 0
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while (part := self.parts.get()) is not None:
            with part[0].open("a") as file:
                file.write(part[1])
            self.parts.task_done()

    def write(self, batch: Batch) -> None:
        name = f"{self.context.subtask}-{self.context.generation}-{self.part}"
        lines = "".join(json.dumps([row.split, row.offset]) + "\n" for row in batch)
        self.parts.put((self.staged / name, lines))
        self.rows.append((self.part, 0))

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.parts.join()
        if self.rows:
            self.pending[checkpoint_id] = f"{self.context.subtask}-{self.context.generation}-{self.part}"
            self.part, self.rows = self.part + 1, []
        return json.dumps(self.pending).encode()

    def close(self) -> None:
        self.parts.put(None)


class ErrorIsForTheNextWrite(WritesBeside):
    """An error of the worker is raised by the next write; the snapshot ignores it."""

    failed = False

    def work(self) -> None:
        while (part := self.parts.get()) is not None:
            try:
                with part[0].open("a") as file:
                    file.write(part[1])
            except OSError:
                self.failed = True
            self.parts.task_done()

    def write(self, batch: Batch) -> None:
        if self.failed:
            raise RuntimeError("rows could not be written")
        super().write(batch)


class Worker:
    """Right."""

    make: Any = WritesBeside

    claims: Any = Claim.EXACTLY_ONCE

    def sink(self, scratch: Scratch) -> Any:
        return self.make(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in sorted((scratch.path / "out").iterdir()):
            yield from map(json.loads, file.read_text().splitlines())


class VotesWithoutTheWorker(Worker):
    """Wrong: rows of the last batches before a snapshot may be missing in what it acknowledged."""

    make = ErrorIsForTheNextWrite
