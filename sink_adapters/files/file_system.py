"""Defines the few file calls that targets make; right before each effect a point is reached.

Paths are relative to the disk's root, with slashes. Below `Files` is a disk: the real one (disk_real.py), or one in
memory that can lose power (disk_memory.py). Disks are not the sink's own code: a crash never stops them in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sinkproof.sink_adapters.protocol import nothing


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

    __slots__ = (
        "_create",
        "_fsync",
        "_fsync_directory",
        "_make_directory",
        "_remove_directory",
        "_rename",
        "_unlink",
        "_write",
        "close",
        "exists",
        "list",
        "reach",
        "read",
    )

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

    def make_directory(self, folder: str) -> None:
        self.reach("file.make_directory")
        self._make_directory(folder)

    def remove_directory(self, folder: str) -> None:
        self.reach("file.remove_directory")
        self._remove_directory(folder)

    def fsync_directory(self, folder: str) -> None:
        self.reach("file.fsync_directory")
        self._fsync_directory(folder)
