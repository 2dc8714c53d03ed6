"""Files that attempts keep on the disk of their host: where a restart has other hosts, they are gone.

These are below folders for temporary files and for caches, but not below the scratch folder: that stands for what all
hosts see.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

TEMPORARY: Final = (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")
# By convention these may be emptied at any time, on the same host, too.
CACHES: Final = (os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "/var/cache", "/run")
OF_A_HOST: Final = tuple(dict.fromkeys(map(os.path.realpath, (*TEMPORARY, *CACHES))))
COMPILED: Final = "__pycache__"


def on_own_host(paths: Iterable[str], scratch: Path) -> list[Path]:
    """Of these absolute paths, those that no other host sees, the deepest first."""
    shared = os.path.realpath(scratch)
    own = {path for path in paths if _is_below(path, OF_A_HOST) and not _is_below(path, (shared,)) and path != shared}
    own = {path for path in own if COMPILED not in Path(path).parts}
    return [Path(path) for path in sorted(own, key=len, reverse=True)]


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)


def remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
