"""The files seam: the few calls that file targets make, each effect a point that is reached right before it happens.

Paths are relative to the disk's root, with slashes. Below the seam is a disk: the real one (disk_real.py), or one in
memory that can lose power (disk_memory.py). Disks are not the sink's own code: a crash does not stop them half way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sinkproof.sink_adapters.protocol import nothing


class Disk(Protocol):
    """What lies below the seam. Errors are those of `os`: FileNotFoundError, FileExistsError, other OSErrors."""

    tells_synced: bool  # whether a copy of it keeps apart what was synced and what was not

    def create(self, path: str) -> Any:
        """A new file, open for writing. FileExistsError: the name is taken. FileNotFoundError: there is no folder."""

    def write(self, file: Any, data: bytes) -> None:
        """Appends all of it; unbuffered, so that it survives the process (but not yet a loss of power)."""

    def fsync(self, file: Any) -> None: ...

    def close(self, file: Any) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Of a file or a folder, atomic, also between folders."""

    def unlink(self, path: str) -> None: ...

    def list(self, folder: str) -> list[str]:
        """Names, sorted; none where there is no such folder."""

    def exists(self, path: str) -> bool: ...

    def is_folder(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def make_directory(self, folder: str) -> None:
        """With its parents, durably. Fine if it is there already."""

    def remove_directory(self, folder: str) -> None:
        """An empty one."""

    def fsync_directory(self, folder: str) -> None:
        """From now on the names in the folder survive a loss of power."""


class Effects:
    """Counts what was changed on a disk, by whomever in this process."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Files:
    """One attempt's way to a disk. Set `reach` first.

    The count is raised after the effect: raised before, whoever looks in between would take the new state for the old.
    A sync counts only where what was synced can be told from what was not.
    """

    __slots__ = (
        "_counts_syncs",
        "_create",
        "_fsync",
        "_fsync_directory",
        "_make_directory",
        "_remove_directory",
        "_rename",
        "_unlink",
        "_write",
        "close",
        "effects",
        "exists",
        "list",
        "reach",
        "read",
    )

    def __init__(self, disk: Disk, *, effects: Effects | None = None) -> None:
        self.reach: Callable[[str], None] = nothing
        self.effects = effects or Effects()
        self._counts_syncs = disk.tells_synced
        self._create, self._write, self._fsync, self._rename = disk.create, disk.write, disk.fsync, disk.rename
        self._unlink, self._fsync_directory = disk.unlink, disk.fsync_directory
        self._make_directory, self._remove_directory = disk.make_directory, disk.remove_directory
        self.list, self.exists, self.read, self.close = disk.list, disk.exists, disk.read, disk.close

    def create(self, path: str) -> Any:
        self.reach("file.create")
        file = self._create(path)
        self.effects.count += 1
        return file

    def write(self, file: Any, data: bytes) -> None:
        self.reach("file.write")
        self._write(file, data)
        self.effects.count += 1

    def fsync(self, file: Any) -> None:
        self.reach("file.fsync")
        self._fsync(file)
        self.effects.count += self._counts_syncs

    def rename(self, old: str, new: str) -> None:
        self.reach("file.rename")
        self._rename(old, new)
        self.effects.count += 1

    def unlink(self, path: str) -> None:
        self.reach("file.unlink")
        self._unlink(path)
        self.effects.count += 1

    def make_directory(self, folder: str) -> None:
        self.reach("file.make_directory")
        self._make_directory(folder)
        self.effects.count += 1

    def remove_directory(self, folder: str) -> None:
        self.reach("file.remove_directory")
        self._remove_directory(folder)
        self.effects.count += 1

    def fsync_directory(self, folder: str) -> None:
        self.reach("file.fsync_directory")
        self._fsync_directory(folder)
        self.effects.count += self._counts_syncs
