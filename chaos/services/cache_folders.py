"""The folders that outlive a run: the cache, the entries of running services, and the data of services."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.service import Progress, ServiceUnavailable

SHARED_MEMORY: Final = Path("/dev/shm")
ROOM_LEAST: Final = 1 << 30  # bytes; a broker of a certification writes a few megabytes, one under load a gigabyte


def cache_folder() -> Path:
    """For files that can be made again: jars, archives of classes."""
    return _own_folder("XDG_CACHE_HOME", ".cache")


def running_folder() -> Path:
    """One file for each running service of this user."""
    return _own_folder("XDG_STATE_HOME", ".local/state") / "services"


def _own_folder(variable: str, below_home: str) -> Path:
    named = os.environ.get(variable, "")
    home = Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~"), below_home)
    return home / "sinkproof"


def made(folder: Path) -> Path:
    """The folder, with all above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServiceUnavailable(
            f"cannot make the folder {folder}",
            evidence=str(error),
            next_step="Set XDG_CACHE_HOME and XDG_STATE_HOME to folders that can be written",
        ) from error
    return folder


def data_home() -> Path:
    """The parent folder of service data: SINKPROOF_SCRATCH if that is set, /dev/shm if it has room, else TMPDIR.

    SIGKILL loses no written byte, synced or not, so a disk would make runs slower and find nothing more.
    """
    if named := os.environ.get("SINKPROOF_SCRATCH"):
        return Path(named)
    roomy = os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free >= ROOM_LEAST
    return SHARED_MEMORY if roomy else Path(tempfile.gettempdir())


@contextmanager
def locked(path: Path, *, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """One process at a time. The kernel releases the lock when its process dies."""
    made(path.parent)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, make: Callable[[Path], None], *, progress: Progress) -> None:
    """Makes the folder atomically: `make` fills another folder, which is renamed. A second process waits."""
    if folder.is_dir():
        return

    def report_wait() -> None:
        progress(f"{folder.name} is being prepared by another process; waiting for it")

    with locked(folder.parent / f".{folder.name}.lock", on_wait=report_wait):
        if folder.is_dir():
            return
        for abandoned in folder.parent.glob(f".{folder.name}-partial-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-partial-", dir=folder.parent))
        try:
            make(partial)
            partial.chmod(0o755)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
