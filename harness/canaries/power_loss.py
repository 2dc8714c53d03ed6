"""Sinks on a disk that may lose power, with one sin each, beside their correct control.

The disk is one in memory, which tells forced data from data that is not; in the process shell it is the real one,
which cannot lose power.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sinkproof.canaries.controls import inherited
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch


class Forced:
    """A snapshot writes a file to `staged`, which is renamed to `out` when the checkpoint is complete."""

    def __init__(self, disk: Any) -> None:
        self.disk = disk
        self.rows: list[tuple[int, int]] = []
        self.pending: dict[int, str] = {}

    def open(self, context: Context) -> None:
        self.context = context
        for folder in ("staged", "out"):
            self.disk.make_directory(folder)
        for _, state in context.restored:
            for name in json.loads(state):
                self.commit(name)
        self.force_names()
        self.sweep()

    def sweep(self) -> None:
        for name in self.disk.list("staged"):
            subtask, generation, _ = map(int, name.split("-"))
            if subtask in inherited(self.context) and generation < self.context.generation:
                self.disk.unlink(f"staged/{name}")

    def write(self, batch: Batch) -> None:
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        if self.rows:
            name = f"{self.context.subtask}-{self.context.generation}-{checkpoint_id}"
            file = self.disk.create(f"staged/{name}")
            self.disk.write(file, json.dumps(self.rows).encode())
            self.force_bytes(file)
            self.disk.close(file)
            self.pending[checkpoint_id] = name
            self.rows = []
        self.force_staged()
        return json.dumps(list(self.pending.values())).encode()

    def force_bytes(self, file: Any) -> None:
        self.disk.fsync(file)

    def force_staged(self) -> None:
        self.disk.fsync_directory("staged")

    def force_names(self) -> None:
        self.disk.fsync_directory("out")

    def notify_complete(self, checkpoint_id: int) -> None:
        covered = [older for older in self.pending if older <= checkpoint_id]
        for older in covered:
            self.commit(self.pending[older])
        self.force_names()
        for older in covered:
            del self.pending[older]

    def commit(self, name: str) -> None:
        if not self.disk.exists(f"out/{name}"):
            self.disk.rename(f"staged/{name}", f"out/{name}")


class PowerControl:
    """Correct: what it acknowledges is on the disk."""

    claims = Claim.EXACTLY_ONCE | Claim.SURVIVES_POWER_LOSS
    make: Any = Forced

    def __init__(self) -> None:
        self.disks: dict[str, Any] = {}

    def disk(self, scratch: Scratch) -> Any:
        simulated = scratch.shell == "simulated"
        return self.disks.setdefault(str(scratch.path), MemoryDisk() if simulated else RealDisk(scratch.path))

    def sink(self, scratch: Scratch) -> Any:
        return self.make(self.disk(scratch))

    def committed(self, scratch: Scratch) -> Iterator[tuple[int, int]]:
        disk = self.disk(scratch)
        for name in disk.list("out"):
            yield from map(tuple, json.loads(disk.read(f"out/{name}") or "[]"))

    def freeze(self, scratch: Scratch) -> Any:
        return self.disk(scratch).freeze()

    def thaw(self, scratch: Scratch, frozen: Any) -> None:
        self.disk(scratch).thaw(frozen)

    def lose_power(self, scratch: Scratch) -> None:
        self.disk(scratch).lose_power()

    def lose_bytes(self, scratch: Scratch) -> None:
        self.disk(scratch).lose_bytes()

    def lose_names(self, scratch: Scratch) -> None:
        self.disk(scratch).lose_names()


class RenamesWithoutFsync(PowerControl):
    """R16: the rename is atomic, but what was renamed has never been forced to the disk."""

    class make(Forced):  # noqa: N801
        def force_bytes(self, file: Any) -> None:
            """Skipped, because the rename is atomic."""


class NeverForcesNames(PowerControl):
    """R16: bytes are forced to the disk, but not the folder's entry that names them: the rename is undone."""

    class make(Forced):  # noqa: N801
        def force_names(self) -> None:
            """Skipped, because the file was forced."""


class ForcesWhenItCommits(PowerControl):
    """R16: forces a file to the disk when it is committed, and not when it is acknowledged. (Correct, but too late.)"""

    class make(Forced):  # noqa: N801
        def force_bytes(self, file: Any) -> None:
            self.files = [*getattr(self, "files", ()), file]

        def notify_complete(self, checkpoint_id: int) -> None:
            for file in getattr(self, "files", ()):
                self.disk.fsync(file)
            super().notify_complete(checkpoint_id)
