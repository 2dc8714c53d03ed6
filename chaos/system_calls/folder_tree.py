"""A folder as a file system sees it: names that refer to inodes, and the contents of these."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class FolderTree:
    """By inode: `names` of folders, `contents` of files, `links` of symbolic links, `modes` of all."""

    root: int = 0
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    links: dict[int, str] = field(default_factory=dict)
    modes: dict[int, int] = field(default_factory=dict)

    def add_details(self, other: FolderTree) -> None:
        """What never changes of an inode, or need not survive."""
        self.links |= other.links
        self.modes |= other.modes

    def inodes(self) -> dict[str, int]:
        """By path relative to the root, folders first."""
        return dict(self._below(self.root, ""))

    def _below(self, folder: int, prefix: str) -> Iterator[tuple[str, int]]:
        for name, inode in sorted(self.names.get(folder, {}).items()):
            yield prefix + name, inode
            if self.is_folder(inode):
                yield from self._below(inode, f"{prefix}{name}/")

    def is_folder(self, inode: int) -> bool:
        return stat.S_ISDIR(self.modes.get(inode, 0))

    def paths(self, folder: str) -> list[str]:
        return [folder, *(os.path.join(folder, path) for path in self.inodes())]

    def digest(self) -> int:
        """Equal for equal names with equal contents."""
        return hash(tuple((path, self.contents.get(inode), self.links.get(inode)) for path, inode in self._sorted()))

    def _sorted(self) -> list[tuple[str, int]]:
        return sorted(self.inodes().items())

    def with_contents(self, contents: Callable[[int], bytes], *, details: Sequence[FolderTree]) -> FolderTree:
        """These names, with other contents."""
        made = FolderTree(root=self.root, names=self.names)
        for tree in details:
            made.add_details(tree)
        files = [inode for inode in made.inodes().values() if stat.S_ISREG(made.modes[inode])]
        made.contents = {inode: contents(inode) for inode in files}
        return made


def read_file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def read_tree(folder: str) -> FolderTree:
    """What vanishes meanwhile is left out."""
    tree = _empty(folder)
    _read_into(tree, folder, tree.root)
    return tree


def read_names(folder: str, *, is_known: Callable[[int], bool]) -> FolderTree:
    """Those in this folder only, with the details of inodes that are not known: folders have thousands of names."""
    tree = _empty(folder)
    names = tree.names[tree.root] = {}
    for entry in _entries(folder):
        inode = entry.inode()
        with suppress(FileNotFoundError):
            if not is_known(inode):
                _add_details(tree, entry)
            names[entry.name] = inode
    return tree


def _empty(folder: str) -> FolderTree:
    status = os.stat(folder)
    return FolderTree(root=status.st_ino, modes={status.st_ino: status.st_mode})


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as listing:
        return list(listing)


def _add_details(tree: FolderTree, entry: os.DirEntry[str]) -> int:
    """Its mode, and where a link leads to."""
    mode = tree.modes[entry.inode()] = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        tree.links[entry.inode()] = os.readlink(entry.path)
    return mode


def _read_into(tree: FolderTree, folder: str, inode: int) -> None:
    names = tree.names[inode] = {}
    for entry in _entries(folder):
        with suppress(FileNotFoundError):
            mode = _add_details(tree, entry)
            if stat.S_ISREG(mode):
                tree.contents[entry.inode()] = read_file(entry.path)
            names[entry.name] = entry.inode()
            if stat.S_ISDIR(mode):
                _read_into(tree, entry.path, entry.inode())


def write_tree(folder: str, current: FolderTree, wanted: FolderTree) -> bool:
    """Makes the folder, which is `current`, what is wanted. Says whether anything had to change. What stays keeps its
    inode, so that its times stay, too.
    """
    there, left = current.inodes(), wanted.inodes()
    removed = [path for path, inode in there.items() if left.get(path) != inode]
    for path in removed:
        _remove(os.path.join(folder, path))
    changed = bool(removed)
    stays = ((inode, os.path.join(folder, path)) for path, inode in left.items() if there.get(path) == inode)
    placed = {inode: whole for inode, whole in stays if os.path.lexists(whole)}  # unless its folder was removed
    for path, inode in left.items():
        whole = os.path.join(folder, path)
        if there.get(path) != inode or not os.path.lexists(whole):
            _make(whole, inode, wanted, other_name=placed.get(inode))
            changed = True
        elif inode in wanted.contents and wanted.contents[inode] != current.contents.get(inode):
            _write(whole, wanted.contents[inode])
            changed = True
        placed.setdefault(inode, whole)
    return changed


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):  # it was in a folder that is gone
            os.unlink(path)


def _make(path: str, inode: int, tree: FolderTree, *, other_name: str | None) -> None:
    if tree.is_folder(inode):
        os.mkdir(path)
    elif inode in tree.links:
        os.symlink(tree.links[inode], path)
        return
    elif other_name is not None:
        os.link(other_name, path)
    else:
        _write(path, tree.contents.get(inode, b""))
    os.chmod(path, stat.S_IMODE(tree.modes[inode]))


def _write(path: str, contents: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(contents)
