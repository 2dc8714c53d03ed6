"""Describes the machine of a measurement. Between machines only ratios of figures can be compared."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.services.service_catalogue import KINDS

IN_MEMORY: Final = ("tmpfs", "ramfs")
DISK_HOME: Final = Path("/var/tmp")  # kept over restarts, so never in memory


def machine(disk: Path, targets: Iterable[str]) -> dict[str, Any]:
    services = {name: kind.version_named() or kind.version for name, kind in KINDS.items()}
    return {
        "processor": _first_line("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memory": _memory(),
        "disk": file_system(disk),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: services[name] for name in targets if name in services},
    }


def disk_folder() -> Path:
    """A folder on a disk: the one for temporary files, if that is on a disk."""
    homes = [Path(os.environ.get("SINKPROOF_SCRATCH") or tempfile.gettempdir()), DISK_HOME]
    on_disk = (home for home in homes if file_system(home) not in IN_MEMORY and os.access(home, os.W_OK))
    return next(on_disk, homes[0])


def file_system(folder: Path) -> str:
    """The kind of the file system that holds the folder, from /proc/mounts."""
    found, kind = "", "unknown"
    for where, its_kind in _mounts():
        if folder.resolve().is_relative_to(where) and len(where) >= len(found):
            found, kind = where, its_kind
    return kind


def _mounts() -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, where, kind, *_ = line.split(" ")
            yield where.replace("\\040", " "), kind


def _memory() -> str:
    kilobytes = _first_line("/proc/meminfo", "MemTotal").partition(" ")[0]
    return f"{int(kilobytes) / (1 << 20):.0f} GiB" if kilobytes.isdecimal() else "unknown"


def _first_line(path: str, name: str) -> str:
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return ""
