"""The real disk below `Files`: system calls, nothing buffered in the process."""

from __future__ import annotations

import os
from typing import Final

from sinkproof.sink_adapters.protocol import without_line_points

READ_BYTES: Final = 1 << 14  # a buffer of 1 << 20 costs 11 us to allocate at every call
Frozen = dict[str, bytes | None]  # relative path -> contents; None: a folder


@without_line_points
class OpenFile:
    """A descriptor that is closed with its last reference: a simulated kill closes no file."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


@without_line_points
class RealDisk:
    """Everything under one folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.fspath(root)
        self.changes = 0

    def create(self, path: str) -> OpenFile:
        self.changes += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return OpenFile(os.open(f"{self.root}/{path}", flags, 0o666))

    def write(self, file: OpenFile, data: bytes) -> None:
        self.changes += 1
        written = os.write(file.descriptor, data)
        while written < len(data):  # a full disk takes a part first, and raises at the next call
            data = data[written:]
            written = os.write(file.descriptor, data)

    def fsync(self, file: OpenFile) -> None:
        os.fsync(file.descriptor)

    def close(self, file: OpenFile) -> None:
        file.close()

    def rename(self, old: str, new: str) -> None:
        self.changes += 1
        os.rename(f"{self.root}/{old}", f"{self.root}/{new}")

    def unlink(self, path: str) -> None:
        self.changes += 1
        os.unlink(f"{self.root}/{path}")

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(f"{self.root}/{folder}"))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(f"{self.root}/{path}")

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(f"{self.root}/{path}")

    def read(self, path: str) -> bytes:
        descriptor = os.open(f"{self.root}/{path}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = [os.read(descriptor, READ_BYTES)]
            while len(parts[-1]) == READ_BYTES:
                parts.append(os.read(descriptor, READ_BYTES))
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def make_directory(self, folder: str) -> None:
        self.changes += 1
        try:
            os.mkdir(f"{self.root}/{folder}")
        except FileExistsError:
            pass  # perhaps by an attempt that was killed before the next line: its name may not be durable yet
        except FileNotFoundError:
            if not folder:
                raise
            self.make_directory(os.path.dirname(folder))
            self.make_directory(folder)  # or another subtask made it first
            return
        self.fsync_directory(os.path.dirname(folder))

    def remove_directory(self, folder: str) -> None:
        self.changes += 1
        os.rmdir(f"{self.root}/{folder}")

    def fsync_directory(self, folder: str) -> None:
        descriptor = os.open(f"{self.root}/{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # -- exact copies -----------------------------------------------------------------------------

    def freeze(self) -> Frozen:
        """The whole tree, sorted, folders before their contents."""
        frozen: Frozen = {}
        self._freeze_into(frozen, "")
        return frozen

    while_powered = freeze

    def _freeze_into(self, frozen: Frozen, prefix: str) -> None:
        with os.scandir(f"{self.root}/{prefix}") as listing:
            entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing)
        for name, is_folder in entries:
            path = prefix + name
            frozen[path] = None if is_folder else self.read(path)
            if is_folder:
                self._freeze_into(frozen, path + "/")

    def thaw(self, frozen: Frozen) -> None:
        """Restores the tree. Every file is a new inode: files that killed attempts hold open are no part of it."""
        self.changes += 1
        folders = {path for path, contents in frozen.items() if contents is None}
        self._clear("", folders)
        for path, contents in frozen.items():
            if contents is not None:
                file = self.create(path)
                self.write(file, contents)
                file.close()
            elif not os.path.isdir(f"{self.root}/{path}"):
                os.mkdir(f"{self.root}/{path}")

    def _clear(self, prefix: str, kept: set[str]) -> None:
        """Removes everything but these folders."""
        with os.scandir(f"{self.root}/{prefix}") as listing:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
        for name, is_folder in entries:
            path = prefix + name
            if not is_folder:
                os.unlink(f"{self.root}/{path}")
                continue
            self._clear(path + "/", kept)
            if path not in kept:
                os.rmdir(f"{self.root}/{path}")
