"""What a contract's methods are given: a name, a folder that is kept over restarts, services; and copies of folders."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final, Self

from sinkproof.chaos.services.cache_folders import SHARED_MEMORY
from sinkproof.subject.services_in_use import NO_SETTINGS, RegisteredService, ServicesInUse

PREFIX: Final = "sinkproof"
ROOM_LEAST: Final = 256 << 20  # bytes; runs need a few megabytes each
TRIED_MOST: Final = 100  # a thread that a dead attempt has left behind may still rename files
USUAL_PERMISSIONS: Final = 0o644
OF_USERS: Final = "user."  # other attributes are the system's, such as those of SELinux, and not for all to set
FrozenFolder = dict[str, bytes | None]  # relative path -> contents; None: a folder


def stopped_clock() -> float:
    """The clock of a scratch outside any run."""
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """The argument of each method of a contract. Child processes get an equal one."""

    name: str  # unique per certification, stable over restarts
    path: Path
    shell: str = "simulated"  # where the sink runs: "simulated", "process" or "spark"
    settings: Mapping[str, Any] = field(default_factory=dict)
    clock: Callable[[], float] = stopped_clock  # seconds
    random: Random = field(default_factory=lambda: Random(0))
    services: ServicesInUse = field(default_factory=ServicesInUse, compare=False, repr=False)

    def for_processes(self) -> Scratch:
        """Without its clock, which cannot be sent to another process."""
        return replace(self, clock=stopped_clock, random=Random(0))

    def setting(self, name: str, default: Any = None) -> Any:
        return self.settings.get(name, default)

    def service(self, name: str, *, start: bool = False, settings: Mapping[str, Any] = NO_SETTINGS) -> Any:
        """An external system: "kafka" gives a kafka_service.KafkaService, "cassandra" a
        cassandra_service.CassandraService, one that another package registers a services_in_use.RegisteredService.

        `start`: for a contract's `setup`, which runs in the process that outlives all attempts: starts one if none
        runs; it ends with this process. `settings`: of its nodes, where they must differ from the default.
        Raises LookupError for any other name.
        """
        if name == "kafka":
            from sinkproof.subject.kafka_service import kafka_service

            return kafka_service(self.services, start=start, settings=settings)
        if name == "cassandra":
            from sinkproof.subject.cassandra_service import cassandra_service

            return cassandra_service(self.services, start=start, settings=settings)
        from sinkproof.chaos.services.service_catalogue import REGISTERED_KINDS

        for kind in REGISTERED_KINDS:
            if kind.name == name:
                return RegisteredService.of(kind, self.services, start=start, settings=settings)
        offered = ", ".join(["kafka", "cassandra", *(kind.name for kind in REGISTERED_KINDS)])
        raise LookupError(
            f"no service {name!r} is offered: only {offered}. "
            "Start what the sink needs besides in the contract's `setup` and stop it in `teardown`"
        )


def fresh_folder(*, home: Path | None = None) -> Path:
    """A new folder: in `home`; else below SINKPROOF_SCRATCH if that is set, else in memory if 256 MiB are free,
    else in TMPDIR.

    SIGKILL loses nothing that was written, synced or not, so a disk would make runs slower and show nothing more. The
    folder's name has the pid of this process, so that a later run can remove it.
    """
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-", dir=home or scratch_homes()[0]))


@contextmanager
def scratch_folder(*, home: Path | None = None) -> Iterator[Path]:
    """A new folder (`fresh_folder`), which is removed when the block ends."""
    folder = fresh_folder(home=home)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scratch_homes() -> list[Path]:
    """Where scratch folders may be; new ones are made in the first."""
    if named := os.environ.get("SINKPROOF_SCRATCH"):
        return [Path(named)]
    fallback = Path(tempfile.gettempdir())
    return [SHARED_MEMORY, fallback] if _has_room(SHARED_MEMORY) else [fallback, SHARED_MEMORY]


def _has_room(folder: Path) -> bool:
    """In containers shared memory often has 64 MiB only."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM_LEAST


def sweep_folders_of_the_dead() -> list[Path]:
    """Removes scratch folders and services' data of killed processes; returns what was removed."""
    from sinkproof.chaos.services.running_services import sweep_dead_services

    removed = list(map(Path, sweep_dead_services()))
    for home in scratch_homes():
        for folder in sorted(home.glob(f"{PREFIX}-*")) if home.is_dir() else ():
            match = re.match(rf"{PREFIX}-(\d+)-", folder.name)
            if match and not Path("/proc", match[1]).exists() and Path("/proc").is_dir():
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


class FrozenFile(bytes):
    """The contents of a file with other permissions than most, or with attributes of its own (xattr(7))."""

    permissions: int
    attributes: dict[str, bytes]

    def __new__(cls, contents: bytes, permissions: int, attributes: dict[str, bytes]) -> Self:
        made = super().__new__(cls, contents)
        made.permissions, made.attributes = permissions, attributes
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrozenFile):
            return False
        is_like = (self.permissions, self.attributes) == (other.permissions, other.attributes)
        return is_like and super().__eq__(other)

    def __ne__(self, other: object) -> bool:  # bytes has one of its own
        return not self == other

    __hash__ = bytes.__hash__

    def __reduce__(self) -> tuple[type[FrozenFile], tuple[bytes, int, dict[str, bytes]]]:
        return FrozenFile, (bytes(self), self.permissions, self.attributes)


def _frozen(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        contents, permissions = file.readall(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        try:
            names = [name for name in os.listxattr(file.fileno()) if name.startswith(OF_USERS)]
            attributes = {name: os.getxattr(file.fileno(), name) for name in names}
        except OSError:  # the file system has none
            attributes = {}
    is_usual = permissions == USUAL_PERMISSIONS and not attributes
    return contents if is_usual else FrozenFile(contents, permissions, attributes)


def freeze_folder(folder: Path) -> FrozenFolder:
    """The contents of every file below the folder, their permissions and attributes, sorted by path."""
    for more in reversed(range(TRIED_MOST)):
        frozen: FrozenFolder = {}
        try:
            _freeze_into(frozen, str(folder), "")
            break
        except FileNotFoundError:
            if not more:
                raise
    return frozen


def _freeze_into(frozen: FrozenFolder, folder: str, prefix: str) -> None:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            frozen[name] = None
            _freeze_into(frozen, entry.path, name + "/")
        elif entry.is_symlink():
            frozen[name] = b"symlink:" + os.fsencode(os.readlink(entry.path))
        elif entry.is_file():
            frozen[name] = _frozen(entry.path)


def thaw_folder(folder: Path, frozen: FrozenFolder) -> None:
    """Restores the folder. Every file is a new inode: open descriptors of dead attempts write into none of them."""
    clear_folder(folder)
    for name, contents in frozen.items():
        path = os.path.join(folder, name)
        if contents is None:
            os.mkdir(path)
        elif contents.startswith(b"symlink:"):
            os.symlink(os.fsdecode(contents[8:]), path)
        else:
            _thaw_file(path, contents)


def _thaw_file(path: str, contents: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(contents)
        os.fchmod(file.fileno(), getattr(contents, "permissions", USUAL_PERMISSIONS))
        for attribute, value in getattr(contents, "attributes", {}).items():
            os.setxattr(file.fileno(), attribute, value)


def clear_folder(folder: Path) -> None:
    """A thread of a dead attempt may still write meanwhile: what vanishes, or fills a folder again, is no error."""
    for _ in range(TRIED_MOST):
        with os.scandir(folder) as listing:
            entries = list(listing)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, onerror=_unless_it_changes)
            else:
                Path(entry.path).unlink(missing_ok=True)
        if not entries:
            return


def _unless_it_changes(_: object, __: object, raised: tuple[type[BaseException], BaseException, object]) -> None:
    error = raised[1]
    if not isinstance(error, OSError) or error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
        raise error
