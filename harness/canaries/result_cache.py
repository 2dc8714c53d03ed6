"""The kill table of this version on this machine, kept in a folder so that many short runs can share one trial.

A certificate that rests on a kept trial says so, with the trial's time. A kept trial is valid only for the same
sources, Python and kernel; a failed trial is never kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sinkproof.reports.document import CanaryResult, plain, replace_file

SOURCES: Final = ("sinkproof", "sinkproof.chaos", "sinkproof.reference_engine", "sinkproof.sink_adapters")


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Among all processes that name the same file. The death of its holder releases the lock."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def fingerprint() -> str:
    """Of everything that the conviction of a canary depends on."""
    digest = hashlib.sha256(f"{sys.version} {sys.flags.optimize} {platform.platform()}".encode())
    for package in SOURCES:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class KeptTrial:
    """The trial of one shell. Hold `one_at_a_time(trial.lock)` from reading to keeping."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.path = folder / f"canaries-{shell}-{fingerprint()}.json"
        self.lock = folder / f"canaries-{shell}.lock"
        self.shell = shell

    def results(self) -> Sequence[CanaryResult] | None:
        """None: nothing usable is kept."""
        try:
            return [CanaryResult(**row) for row in json.loads(self.path.read_text("utf-8"))]
        except (OSError, ValueError, TypeError):
            return None

    def keep(self, results: Sequence[CanaryResult]) -> None:
        replace_file(self.path, json.dumps(plain(list(results)), indent=1))

    @property
    def note(self) -> str:
        when = datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        return (
            f"in the {self.shell} shell the canaries were tried at {when:%Y-%m-%d %H:%M:%S} UTC by this very version, "
            f"and not again for this certificate ({self.path})"
        )
