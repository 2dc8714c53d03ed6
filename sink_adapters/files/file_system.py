"""Defines the few file calls that targets make, and part files; right before each effect a point is reached.

Paths are relative to the disk's root, with slashes. Below `Files` is a disk: the real one (disk_real.py), or one in
memory that can lose power (disk_memory.py). Disks are not the sink's own code: a crash never stops them in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from sinkproof.sink_adapters.files.row_formats import FileFormat, PartWriter
from sinkproof.sink_adapters.protocol import Batch, nothing
from sinkproof.sink_adapters.strategies.ownership_and_names import Transaction


class Disk(Protocol):
    """Below `Files`. Errors are those of `os`: FileNotFoundError, FileExistsError, other OSErrors."""

    changes: int  # number of changes; a sync counts only where a copy shows what was synced

    def create(self, path: str) -> Any:
        """A new file, open for writing. FileExistsError: the name is taken. FileNotFoundError: there is no folder."""

    def write(self, file: Any, data: bytes) -> None:
        """Appends all of it; unbuffered, so that it survives a kill (but not yet a power loss)."""

    def fsync(self, file: Any) -> None: ...

    def close(self, file: Any) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Renames a file or a folder atomically, also between folders."""

    def unlink(self, path: str) -> None: ...

    def list(self, folder: str) -> list[str]:
        """Names, sorted; empty if there is no such folder."""

    def exists(self, path: str) -> bool: ...

    def is_folder(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def make_directory(self, folder: str) -> None:
        """With its parents, durably. No error if it exists."""

    def remove_directory(self, folder: str) -> None:
        """Removes an empty folder."""

    def fsync_directory(self, folder: str) -> None:
        """On return the names in the folder survive a power loss."""


class Files:
    """One attempt's access to a disk. Set `reach` first."""

    def __init__(self, disk: Disk) -> None:
        self.reach: Callable[[str], None] = nothing
        self._create, self._write, self._fsync, self._rename = disk.create, disk.write, disk.fsync, disk.rename
        self._unlink, self._fsync_directory = disk.unlink, disk.fsync_directory
        self._make_directory, self._remove_directory = disk.make_directory, disk.remove_directory
        self.list, self.exists, self.read, self.close = disk.list, disk.exists, disk.read, disk.close

    def create(self, path: str) -> Any:
        self.reach("file.create")
        return self._create(path)

    def write(self, file: Any, data: bytes) -> None:
        self.reach("file.write")
        self._write(file, data)

    def fsync(self, file: Any) -> None:
        self.reach("file.fsync")
        self._fsync(file)

    def rename(self, old: str, new: str) -> None:
        self.reach("file.rename")
        self._rename(old, new)

    def unlink(self, path: str) -> None:
        self.reach("file.unlink")
        self._unlink(path)

    def unlink_if_there(self, path: str) -> None:
        """It may have been removed by an attempt that was killed since, or that is a zombie."""
        with suppress(FileNotFoundError):
            self.unlink(path)

    def make_directory(self, folder: str) -> None:
        self.reach("file.make_directory")
        self._make_directory(folder)

    def remove_directory(self, folder: str) -> None:
        self.reach("file.remove_directory")
        self._remove_directory(folder)

    def fsync_directory(self, folder: str) -> None:
        self.reach("file.fsync_directory")
        self._fsync_directory(folder)


def part_name(transaction: Transaction, number: int, form: FileFormat) -> str:
    """The name of a part file in a folder that readers read: the order of names is the order of checkpoints."""
    of = f"{transaction.sequence:08d}-{transaction.subtask}-{transaction.generation}"
    return f"part-{of}-{number:04d}{form.suffix}"


class PartFile:
    """A new part file in progress. `writer`: of its format."""

    def __init__(self, files: Files, path: str, writer: PartWriter) -> None:
        self.files, self.file, self.writer = files, files.create(path), writer

    def add(self, batch: Batch) -> int:
        """The size of the part so far."""
        if data := self.writer.add(batch):
            self.files.write(self.file, data)
        return self.writer.size

    def finish(self) -> None:
        """On return it is whole, synced and closed."""
        if data := self.writer.finish():
            self.files.write(self.file, data)
        self.files.fsync(self.file)
        self.files.close(self.file)

    def close(self) -> None:
        self.files.close(self.file)
