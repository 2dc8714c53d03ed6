"""Makes an archive of the classes that each node of a service loads (AppCDS): it halves the time of a start."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.cache_folders import cache_folder, made_once
from sinkproof.chaos.services.jvm import Installation, class_path, java_version
from sinkproof.chaos.services.local_service import LocalService
from sinkproof.chaos.services.service import Progress, ServiceError

ARCHIVE: Final = "classes.jsa"
# C1 only: a start of Kafka takes 1.8 s of one core instead of 3.1. Under minutes of load it would be slower.
COMPILE_ONCE: Final = "-XX:TieredStopAtLevel=1"


def short_lived(installation: Installation) -> Installation:
    """For a service that starts often and has little load."""
    return replace(installation, options=(*installation.options, COMPILE_ONCE))


def with_classes(
    plain: Installation, start: Callable[[Installation], LocalService], *, what: str, progress: Progress
) -> Installation:
    """The same installation with its archive, which a node of the very first start writes when it ends.

    The archive is optional: if this fails, nodes start without it, and it is not tried again.
    """

    def make(partial: Path) -> None:
        progress(f"preparing a faster start of {what} (only the first time)")
        try:
            with start(replace(plain, options=(f"-XX:ArchiveClassesAtExit={partial / ARCHIVE}",))) as service:
                service.stop()
        except ServiceError as error:
            (partial / "failed").write_text(str(error))
            (partial / ARCHIVE).unlink(missing_ok=True)

    folder = _folder(plain)
    made_once(folder, make, progress=progress)
    if not (folder / ARCHIVE).exists():
        return plain
    return replace(plain, options=("-Xshare:auto", f"-XX:SharedArchiveFile={folder / ARCHIVE}"))


def _folder(installation: Installation) -> Path:
    """One folder per Java, set of jars, and their paths."""
    libs = Path(installation.libs)
    known = [os.path.realpath(installation.java), java_version(installation.java), class_path(libs)]
    key = hashlib.sha256(repr((known, libs.stat().st_mtime_ns)).encode()).hexdigest()[:16]
    return cache_folder() / f"{libs.name}-classes-{key}"
