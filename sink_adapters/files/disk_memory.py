"""A disk in memory that can lose power: it distinguishes what was written from what was synced, for bytes and names.

A file's bytes survive when the file was synced, its name when its folder was. A rename between folders of which only
the new one was synced leaves both names; where only the old one was, the old name. As on a real disk, the kill of a
process loses nothing, and an open file keeps writing to its inode after a rename.
"""

from __future__ import annotations

import marshal
from typing import Any, Final

from sinkproof.sink_adapters.protocol import without_line_points

# The last version of marshal's format in which equal values have equal bytes, whether or not they are one object.
BY_VALUE: Final = 2


@without_line_points
class File:
    __slots__ = ("synced", "written")

    def __init__(self) -> None:
        self.written = self.synced = b""


@without_line_points
class Folder:
    __slots__ = ("names", "synced")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}


Node = File | Folder


@without_line_points
class MemoryDisk:
    """One tree, shared by all references to the object."""

    def __init__(self) -> None:
        self.root = Folder()
        self.changes = 0
        self.reads = 0  # number of lookups of names

    def lose_power(self) -> None:
        """Only synced bytes and names are left."""
        self.changes += 1
        _drop_unsynced(self.root, names=True, data=True)

    def lose_bytes(self) -> None:
        """Every name is left; of bytes that were not synced, the first half: a torn tail."""
        self.changes += 1
        _drop_unsynced(self.root, names=False, data=True, kept=0.5)

    def lose_names(self) -> None:
        """Every byte is left; of names, those that were synced."""
        self.changes += 1
        _drop_unsynced(self.root, names=True, data=False)

    def create(self, path: str) -> File:
        self.changes += 1
        folder, name = self._place(path)
        if name in folder.names:
            raise FileExistsError(path)
        file = folder.names[name] = File()
        return file

    def write(self, file: File, data: bytes) -> None:
        self.changes += 1
        file.written += data

    def fsync(self, file: File) -> None:
        self.changes += 1
        file.synced = file.written

    def close(self, file: File) -> None:
        pass

    def rename(self, old: str, new: str) -> None:
        self.changes += 1
        source, old_name = self._place(old)
        target, new_name = self._place(new)
        if old_name not in source.names:
            raise FileNotFoundError(old)
        replaced = target.names.get(new_name)
        if isinstance(replaced, Folder) and replaced.names:
            raise OSError(f"folder not empty: {new}")
        target.names[new_name] = source.names.pop(old_name)

    def unlink(self, path: str) -> None:
        self.changes += 1
        folder, name = self._place(path)
        if not isinstance(folder.names.get(name), File):
            raise FileNotFoundError(path)
        del folder.names[name]

    def list(self, folder: str) -> list[str]:
        found = self._find(folder)
        return sorted(found.names) if isinstance(found, Folder) else []

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_folder(self, path: str) -> bool:
        return isinstance(self._find(path), Folder)

    def read(self, path: str) -> bytes:
        found = self._find(path)
        if not isinstance(found, File):
            raise FileNotFoundError(path)
        return found.written

    def make_directory(self, folder: str) -> None:
        self.changes += 1
        here = self.root
        for name in filter(None, folder.split("/")):
            below = here.names.get(name)
            if below is None:
                below = here.names[name] = Folder()
                here.synced = dict(here.names)
            if not isinstance(below, Folder):
                raise FileExistsError(folder)
            here = below

    def remove_directory(self, folder: str) -> None:
        self.changes += 1
        parent, name = self._place(folder)
        found = parent.names.get(name)
        if not isinstance(found, Folder):
            raise FileNotFoundError(folder)
        if found.names:
            raise OSError(f"folder not empty: {folder}")
        del parent.names[name]

    def fsync_directory(self, folder: str) -> None:
        self.changes += 1
        found = self._find(folder)
        if not isinstance(found, Folder):
            raise FileNotFoundError(folder)
        found.synced = dict(found.names)

    # -- exact copies -----------------------------------------------------------------------------

    def freeze(self) -> bytes:
        """Includes what was synced and the identity of every inode. Equal for equal disks, whatever their history."""
        return marshal.dumps(_inodes(self.root), BY_VALUE)

    def while_powered(self) -> bytes:
        """Without what was synced, which only a power loss shows. Cannot be thawed."""
        return marshal.dumps(_visible(self.root), BY_VALUE)

    def thaw(self, frozen: bytes) -> None:
        self.changes += 1
        nodes = marshal.loads(frozen)
        made: list[Node] = [File() if isinstance(node[0], bytes) else Folder() for node in nodes]
        for node, (now, synced) in zip(made, nodes, strict=True):
            if isinstance(node, File):
                node.written, node.synced = now, synced
            else:
                node.names = {name: made[number] for name, number in zip(now[::2], now[1::2], strict=True)}
                kept = now if synced is None else synced
                node.synced = {name: made[number] for name, number in zip(kept[::2], kept[1::2], strict=True)}
        root = made[0]
        assert isinstance(root, Folder)
        self.root = root

    # -- paths ------------------------------------------------------------------------------------

    def _find(self, path: str) -> Node | None:
        self.reads += 1
        here: Node | None = self.root
        for name in filter(None, path.split("/")):
            if not isinstance(here, Folder):
                return None
            here = here.names.get(name)
        return here

    def _place(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        found = self._find(folder)
        if not isinstance(found, Folder):
            raise FileNotFoundError(path)
        return found, name


def _visible(folder: Folder) -> list[Any]:
    """Names, and bytes or what is below. Two names of one file, possible after a power loss, are not distinguished
    from two files: it is never opened for writing again.
    """
    return [
        (name, node.written if isinstance(node, File) else _visible(node))
        for name, node in sorted(folder.names.items())
    ]


def _inodes(root: Folder) -> list[Any]:
    """Every node once, as (bytes, synced bytes) or (names, synced names), where names are name, number of a node, name,
    and so on; of synced names, None if they are the same. Written out for speed: it is made at each step of each run.
    """
    nodes: list[Any] = []
    numbers: dict[int, int] = {}

    def number_of(folder: Folder) -> int:
        number = numbers[id(folder)] = len(nodes)
        nodes.append(None)
        now = numbered(folder.names)
        nodes[number] = now, None if folder.synced == folder.names else numbered(folder.synced)
        return number

    def numbered(names: dict[str, Node]) -> list[Any]:
        found: list[Any] = []
        for name in sorted(names):
            node = names[name]
            number = numbers.get(id(node))
            if number is not None:
                found += name, number
            elif isinstance(node, File):
                found += name, len(nodes)
                numbers[id(node)] = len(nodes)
                nodes.append((node.written, node.synced))
            else:
                found += name, number_of(node)
        return found

    number_of(root)
    return nodes


def _drop_unsynced(folder: Folder, *, names: bool, data: bool, kept: float = 0.0) -> None:
    """`kept`: the share of unsynced bytes that reached the disk anyway. What is left counts as synced."""
    if names:
        folder.names = dict(folder.synced)
    folder.synced = dict(folder.names)
    for node in folder.names.values():
        if isinstance(node, Folder):
            _drop_unsynced(node, names=names, data=data, kept=kept)
            continue
        if data:
            unsynced = len(node.written) - len(node.synced)
            node.written = node.written[: len(node.synced) + int(unsynced * kept)]
        node.synced = node.written
