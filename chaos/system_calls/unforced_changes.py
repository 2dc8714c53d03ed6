"""What would a loss of power leave of a folder? Known from the calls that force bytes or names to disk.

When a file is forced (fsync, fdatasync, a write to a file opened with O_SYNC), its contents of then survive. When
a folder is forced, the names in it survive. When forcing a file fails, Linux takes what it could not write for written:
a later call forces only what is written again. Of everything since, a file system may keep what it likes, in any order;
`lose` puts the folder back to one of a few such states. What lies there at the beginning has been forced, and what the
engine's own process changes (a reader, which recovers a database) is taken as forced.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from sinkproof.chaos.system_calls.folder_tree import FolderTree, read_file, read_names, read_tree, write_tree
from sinkproof.chaos.system_calls.outward_calls import CALLS
from sinkproof.chaos.system_calls.place_names import Tracee
from sinkproof.chaos.system_calls.supervisor import NotifiedCall

FORCING: Final = ("fsync", "fdatasync")
FORCING_ALL: Final = ("sync", "syncfs")
SYNCHRONOUS: Final = os.O_DSYNC  # part of O_SYNC, too
SYNCHRONOUS_ONCE: Final = os.RWF_DSYNC | os.RWF_SYNC  # flags of pwritev2(2)
PAGE_BYTES: Final = 4096
# A file that is truncated to less counts as emptied: no record is that short (SQLite leaves three bytes of a map).
EMPTIED_BYTES_MOST: Final = 8
HOOKS: Final = ("lose_power", "lose_bytes", "lose_names", "lose_tails", "lose_newest", "lose_older")
NAMES_LOST: Final = ("lose_power", "lose_names")  # in the others, all names are on disk

Keep = Callable[[int], bytes]  # the contents of a file, by its inode


class UnforcedChanges:
    """Of one run. The threads of its watches report calls, in the order in which they are carried out."""

    def __init__(self, folder: str, *, compares: bool = False) -> None:
        """`compares`: notes what each loss of power before each call would leave."""
        self.folder = os.path.realpath(folder)
        self.would_leave: list[
            tuple[str, Mapping[str, int]]
        ] = []  # (call, by the name of a hook: a hash; 0: all of it)
        self._compares = compares
        self.losses = 0  # of power, that took something away
        self._lock = threading.Lock()  # of all that follows
        self._pins: dict[int, int] = {}  # inode -> descriptor, so that no other file gets this number
        self._waiting: list[Callable[[], None]] = []  # what holds as soon as the last call has been carried out
        self._changed: dict[int, None] = {}  # inodes of files in the order of their last changes
        self._touched: set[int] = set()  # inodes that have changed since the names of their folder were forced
        self._mapped: set[str] = set()  # files that a living process may change without a call
        self._doubtful: set[str] = set()  # that a dead process had mapped when the power was lost
        self._dropped: dict[int, bytes] = {}  # by inode: contents when forcing them has failed; not written since
        self._forced = FolderTree()
        self._begin()

    @property
    def mapped_across_losses(self) -> list[str]:
        """Files that were mapped when the power was lost, and that no process has emptied or removed since."""
        with self._lock:
            return sorted(os.path.relpath(path, self.folder) for path in self._doubtful)

    def close(self) -> None:
        for descriptor in self._pins.values():
            os.close(descriptor)
        self._pins.clear()

    # -- for the watches --------------------------------------------------------------------------

    def carry_out(self, call: NotifiedCall) -> None:
        """An earlier call has been carried out by now, this one has not."""
        name, paths = call.change.call, call.change.paths
        if not paths:
            return
        with self._lock, suppress(OSError):  # the call will fail, too
            self._settle()
            if self._compares:
                self.would_leave.append((call.change.point, self._compared()))
            self._note_emptied(name, paths, call.arguments)
            at = CALLS[name].descriptor
            if name in FORCING_ALL:
                tree = read_tree(self.folder)
                self._waiting.append(lambda: self._force_tree(tree))
            elif at is None:
                self._waiting.append(lambda: self._note_change(paths[0]))
            else:
                forces = name == "pwritev2" and bool(call.arguments[5] & SYNCHRONOUS_ONCE)
                self._of_opened(name, call.tracee, call.arguments[at], forces=forces)

    def fail(self, call: NotifiedCall) -> None:
        """What was to be forced is on no disk, and no later call forces it unless it is written again."""
        name, at = call.change.call, CALLS[call.change.call].descriptor
        if name not in FORCING or at is None:
            return
        with self._lock, suppress(OSError):
            self._settle()
            link = call.tracee.link(call.arguments[at])
            status = os.stat(link)
            if stat.S_ISREG(status.st_mode):
                self._pin(link, follow=True)
                self._dropped[status.st_ino] = read_file(link)

    def _of_opened(self, name: str, tracee: Tracee, descriptor: int, *, forces: bool) -> None:
        """`forces`: this call itself, whatever the file was opened for."""
        if tracee.flags(descriptor) & os.O_PATH:
            return  # a place, and no open file: every call fails
        link = tracee.link(descriptor)  # leads to the file whatever became of its name
        status = os.stat(link)
        inode = status.st_ino
        if name in FORCING:
            self._force_soon(link, status)
            return
        self._note_change(link)
        if forces or tracee.flags(descriptor) & SYNCHRONOUS:
            self._pin(link, follow=True)
            path = os.readlink(link)
            self._waiting.append(lambda: self._force_now(path, inode))

    def map(self, path: str) -> None:
        with self._lock:
            self._mapped.add(path)

    def _note_emptied(self, name: str, paths: Sequence[str], arguments: Sequence[int]) -> None:
        shortened = name in ("ftruncate", "truncate") and arguments[1] < EMPTIED_BYTES_MOST
        if shortened or name.startswith(("unlink", "rename")):
            self._doubtful -= set(paths)

    # -- for the engine ---------------------------------------------------------------------------

    @contextmanager
    def by_the_engine(self) -> Iterator[None]:
        """What changes within is forced: the engine's process is none of the sink's."""
        with self._lock:
            self._settle()
            before = read_tree(self.folder)
        try:
            yield
        finally:
            with self._lock:
                self._force_difference(before, read_tree(self.folder))

    def lose(self, how: str) -> None:
        """Every process is dead. `how`: the name of a fault's hook."""
        with self._lock:
            self._settle()
            current = read_tree(self.folder)
            left = self._left_by(how, current)
            self.losses += write_tree(self.folder, current, left)
            self._doubtful |= self._mapped
            self._mapped.clear()
            self._begin()

    def _compared(self) -> dict[str, int]:
        current = read_tree(self.folder)
        whole = current.digest()
        left = {how: self._left_by(how, current).digest() for how in HOOKS}
        return {how: 0 if digest == whole else digest for how, digest in left.items()}

    def _left_by(self, how: str, current: FolderTree) -> FolderTree:
        forced = self._forced

        def lost(inode: int) -> bytes:
            return forced.contents.get(inode, b"")

        def kept(inode: int) -> bytes:
            return current.contents.get(inode, lost(inode))

        unforced = [inode for inode in self._changed if kept(inode) != lost(inode)]
        newest = unforced[-1] if unforced else 0
        keep: dict[str, Keep] = {
            "lose_power": lost,
            "lose_names": kept,
            "lose_bytes": lost,
            "lose_tails": lambda inode: torn(lost(inode), kept(inode)),
            "lose_newest": lambda inode: lost(inode) if inode == newest else kept(inode),
            "lose_older": lambda inode: kept(inode) if inode == newest else lost(inode),
        }
        names = forced if how in NAMES_LOST else current
        return names.with_contents(keep[how], details=(current, forced))

    # -- what is forced ---------------------------------------------------------------------------

    def _begin(self) -> None:
        """All that is there has reached the disk."""
        self._waiting.clear()
        self._changed.clear()
        self._dropped.clear()
        self._forced = read_tree(self.folder)
        for path in self._forced.paths(self.folder):
            self._pin(path)

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for holds in waiting:
            holds()

    def _note_change(self, path: str) -> None:
        with suppress(OSError):
            inode = os.stat(path).st_ino
            self._dropped.pop(inode, None)
            self._changed.pop(inode, None)
            self._changed[inode] = None
            self._touched.add(inode)

    def _force_soon(self, link: str, status: os.stat_result) -> None:
        """With its contents of now: by the time that the call has returned others may have changed it."""
        if stat.S_ISDIR(status.st_mode):
            tree = read_names(link, is_known=self._is_known)
            for name, inode in tree.names[tree.root].items():
                self._touched.discard(inode)
                if inode not in self._pins:
                    self._pin(os.path.join(link, name))
            left = self._left_for(tree)
            self._waiting.append(lambda: self._force_names(tree, left))
        elif stat.S_ISREG(status.st_mode):
            contents = read_file(link)
            self._pin(link, follow=True)
            self._waiting.append(lambda: self._force_contents(status.st_ino, contents))

    def _is_known(self, inode: int) -> bool:
        return inode in self._pins and inode in self._forced.modes and inode not in self._touched

    def _force_now(self, path: str, inode: int) -> None:
        with suppress(OSError):
            if os.stat(path).st_ino == inode:
                self._force_contents(inode, read_file(path))

    def _force_difference(self, before: FolderTree, after: FolderTree) -> None:
        for inode, contents in after.contents.items():
            if before.contents.get(inode) != contents:
                self._force_contents(inode, contents)
        for inode, names in after.names.items():
            if before.names.get(inode) != names:
                self._forced.names[inode] = names
        self._forced.add_details(after)

    def _force_tree(self, tree: FolderTree) -> None:
        self._forced = tree
        for path in tree.paths(self.folder):
            self._pin(path)

    def _left_for(self, tree: FolderTree) -> list[tuple[int, str]]:
        """(inode of another folder, name there) that a file or folder had before it was moved here: what journals moves
        it in one transaction, so that a disk has one of the two names.
        """
        here = {*tree.names[tree.root].values()}
        others = {inode: names for inode, names in self._forced.names.items() if inode != tree.root}
        found = [(folder, name, inode) for folder, names in others.items() for name, inode in names.items()]
        return [
            (folder, name) for folder, name, inode in found if inode in here and self._has_left(folder, name, inode)
        ]

    def _has_left(self, folder: int, name: str, inode: int) -> bool:
        if folder not in self._pins:
            return False
        try:
            return os.stat(name, dir_fd=self._pins[folder], follow_symlinks=False).st_ino != inode
        except OSError:
            return True

    def _force_names(self, tree: FolderTree, left: Sequence[tuple[int, str]]) -> None:
        self._forced.names |= tree.names
        for folder, name in left:
            names = self._forced.names.get(folder, {})
            self._forced.names[folder] = {each: inode for each, inode in names.items() if each != name}
        self._forced.add_details(tree)

    def _force_contents(self, inode: int, contents: bytes) -> None:
        if contents == self._dropped.get(inode):
            contents = self._forced.contents.get(inode, b"")[: len(contents)].ljust(len(contents), b"\0")
        self._forced.contents[inode] = contents

    def _pin(self, path: str, *, follow: bool = False) -> None:
        """Only a path: closing it gives back no lock of this process."""
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
            inode = os.fstat(descriptor).st_ino
            if inode in self._pins:
                os.close(descriptor)
            else:
                self._pins[inode] = descriptor


def torn(forced: bytes, written: bytes) -> bytes:
    """What a write-back has left that was cut in the middle: of an appended end the first half, else of its pages."""
    if written.startswith(forced):
        return written[: len(forced) + (len(written) - len(forced)) // 2]
    size = max(len(forced), len(written))
    forced, written = forced.ljust(size, b"\0"), written.ljust(size, b"\0")  # beyond its end a file reads as zeros
    pages = size // PAGE_BYTES + 1
    differing = [at for at in range(pages) if _page(forced, at) != _page(written, at)]
    new = set(differing[: max(1, len(differing) // 2)])
    if len(differing) == 1:  # disks write sectors, so half of a page may be new
        middle = differing[0] * PAGE_BYTES + PAGE_BYTES // 2
        return written[:middle] + forced[middle:]
    return b"".join(_page(written if at in new else forced, at) for at in range(pages))


def _page(contents: bytes, number: int) -> bytes:
    return contents[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
