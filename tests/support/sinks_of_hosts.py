"""Sinks that see the host they run on. Right: ByCheckpoint, ByDayOfUtc, LockedForAll, WithItsAddress. Wrong, as another
host sees another name, day, lock, number of cores, network card, file, or uptime: ByHost, ByImportedHost, ByLocalDay,
ByCore, LockedOnOneHost, ByMachine, ByMachineId, ByUptime.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Batch, Claim
from sinkproof.subject.scratch import Scratch

HOST = socket.gethostname()


class WritesFiles(PartsOfCheckpoints):
    """A file for each checkpoint of a subtask, or for what of it has one `name`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset, row.event_time_ms] for row in batch]

    def publish(self, name: str, rows: list[list[Any]]) -> None:
        named: dict[str, list[list[Any]]] = {}
        for row in rows:
            named.setdefault(self.named(name, row[2] / 1000), []).append(row[:2])
        for each, its in named.items():
            self.replace(self.folder / f"{each}.json", its)

    def named(self, name: str, seconds: float) -> str:
        return name

    def replace(self, path: Path, value: Any) -> None:
        temporary = self.folder / f"new-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(value))
        os.replace(temporary, path)


class WritesWhatIsNewer(WritesFiles):
    """What has a stamp that is not above the last one of its subtask was written before."""

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.rows.insert(0, [vars(time)["monotonic_ns"](), 0, 0])
        return super().snapshot(checkpoint_id)

    def publish(self, name: str, rows: list[list[Any]]) -> None:
        mark = self.folder / f"mark-{name.partition('-')[0]}"
        if rows[0][0] > (json.loads(mark.read_text()) if mark.exists() else 0):
            super().publish(name, rows[1:])
            self.replace(mark, rows[0][0])


class NamesHosts(WritesFiles):
    def named(self, name: str, seconds: float) -> str:
        return f"{socket.gethostname()}-{name}"


class NamesImportedHosts(WritesFiles):
    def named(self, name: str, seconds: float) -> str:
        return f"{HOST}-{name}"


class NamesMachines(WritesFiles):
    def named(self, name: str, seconds: float) -> str:
        return f"{uuid.getnode():x}-{name}"


class NamesMachineIds(WritesFiles):
    def named(self, name: str, seconds: float) -> str:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}-{name}"


class KnowsItsAddress(WritesFiles):
    def replace(self, path: Path, value: Any) -> None:
        socket.gethostbyname(socket.gethostname())
        super().replace(path, value)


class WritesAFileForEachCore(WritesFiles):
    def publish(self, name: str, rows: list[list[Any]]) -> None:
        cores = os.cpu_count() or 1
        for core in range(cores):
            self.replace(self.folder / f"{name}.{core}.json", [row[:2] for row in rows[core::cores]])


class NamesLocalDays(WritesFiles):
    def named(self, name: str, seconds: float) -> str:
        return f"{datetime.fromtimestamp(seconds):%Y-%m-%d}-{name}"


class NamesDaysOfUtc(WritesFiles):
    def named(self, name: str, seconds: float) -> str:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}-{name}"


class ListsFiles(WritesFiles):
    """A reader sees what a list names."""

    def __init__(self, folder: Path, lock: Path) -> None:
        super().__init__(folder)
        self.lock = lock

    def publish(self, name: str, rows: list[list[Any]]) -> None:
        self.replace(self.folder / f"{name}.json", [row[:2] for row in rows])
        with self.lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            listed = self.folder / "listed"
            names = json.loads(listed.read_text() or "[]") if listed.exists() else []
            self.replace(listed, sorted({*names, name}))


class ByCheckpoint:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    made: Any = WritesFiles

    def sink(self, scratch: Scratch) -> WritesFiles:
        return self.made(scratch.path)  # type: ignore[no-any-return]

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())


class ByHost(ByCheckpoint):
    made = NamesHosts


class ByImportedHost(ByCheckpoint):
    made = NamesImportedHosts


class ByMachine(ByCheckpoint):
    made = NamesMachines


class ByMachineId(ByCheckpoint):
    made = NamesMachineIds


class WithItsAddress(ByCheckpoint):
    made = KnowsItsAddress


class ByUptime(ByCheckpoint):
    made = WritesWhatIsNewer


class ByCore(ByCheckpoint):
    made = WritesAFileForEachCore


class ByLocalDay(ByCheckpoint):
    made = NamesLocalDays


class ByDayOfUtc(ByCheckpoint):
    made = NamesDaysOfUtc


class LockedForAll(ByCheckpoint):
    rescales = False

    def sink(self, scratch: Scratch) -> WritesFiles:
        return ListsFiles(scratch.path, scratch.path / "lock")

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        listed = scratch.path / "listed"
        for name in json.loads(listed.read_text() or "[]") if listed.exists() else []:
            yield from json.loads((scratch.path / f"{name}.json").read_text())


class LockedOnOneHost(LockedForAll):
    def sink(self, scratch: Scratch) -> WritesFiles:
        return ListsFiles(scratch.path, Path(tempfile.gettempdir()) / f"{scratch.path.name}.lock")

    def teardown(self, scratch: Scratch) -> None:
        (Path(tempfile.gettempdir()) / f"{scratch.path.name}.lock").unlink(missing_ok=True)


class LockedByWhatIsReplaced(LockedForAll):
    """Wrong on one host, too: the next subtask locks the new list, while this one has waited for the old."""

    def sink(self, scratch: Scratch) -> WritesFiles:
        return ListsFiles(scratch.path, scratch.path / "listed")
