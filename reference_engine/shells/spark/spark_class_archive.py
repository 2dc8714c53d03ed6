"""An archive of the classes that every session loads (AppCDS): loading and verifying them is most of a start.

It is made once per Java and Spark, when everything else is installed, by a session in a process of its own, and kept in
the user's cache folder. It is a convenience: sessions start without it if it fails.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.cache_folders import cache_folder
from sinkproof.chaos.services.jvm import java_version, path_of_java
from sinkproof.reference_engine.shells.spark.java_installation import quoted

TRAINING_SECONDS: Final = 60.0  # 15 on two idle cores
ARCHIVE: Final = "classes.jsa"
PLACE: Final = "place"  # holds the folder of the Spark that an archive is of
FAILED: Final = "failed"
# Run as a program with three arguments: parent's pid, folder, archive.
TRAINING: Final = "sinkproof.reference_engine.shells.spark.spark_session"


def archive_options(java_options: Sequence[str]) -> list[str]:
    """What makes a JVM use the archive; nothing where there is none. Never a reason to fail."""
    try:
        archive = _archive_folder(java_options) / ARCHIVE
        return [f"-XX:SharedArchiveFile={quoted(archive)}"] if archive.exists() else []
    except (OSError, subprocess.SubprocessError):
        return []  # no home, or a folder of another user


def prepare_archive(java_options: Sequence[str]) -> None:
    """Makes it if it is missing. Takes a while, and both cores: nothing else should be going on."""
    with suppress(OSError, subprocess.SubprocessError):  # no home, a full disk
        folder = _archive_folder(java_options)
        if not (folder / ARCHIVE).exists() and not (folder / FAILED).exists():
            print("sinkproof: preparing a faster start of Spark (only the first time; less than a minute)", flush=True)
            _make_archive(folder)


def _archive_folder(java_options: Sequence[str]) -> Path:
    """One per Java and Spark, and per place of theirs: an archive depends on the paths and the times of its jars."""
    java, spark = path_of_java(), _spark_home()
    assert java is not None  # it was checked
    jars = (spark / "jars").stat().st_mtime_ns
    known = [os.path.realpath(java), java_version(java), metadata.version("pyspark"), str(spark), jars]
    key = hashlib.sha256(repr((known, *java_options)).encode()).hexdigest()[:16]
    return cache_folder() / f"spark-{key}"


def _spark_home() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])


def _make_archive(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if (folder / ARCHIVE).exists():
            return
        _remove_outdated(folder.parent)
        partial = folder / f"{ARCHIVE}.partial"
        partial.unlink(missing_ok=True)
        if _train(partial):
            (folder / PLACE).write_text(str(_spark_home()))
            partial.replace(folder / ARCHIVE)
        else:
            (folder / FAILED).touch()  # a second failure would only cost time


def _remove_outdated(archives: Path) -> None:
    """Archives take 180 MB each: those of environments that are gone, or for other options, are of no use."""
    for place in archives.glob(f"spark-*/{PLACE}"):
        spark = Path(place.read_text())
        if spark == _spark_home() or not spark.exists():
            shutil.rmtree(place.parent, ignore_errors=True)


def _train(archive: Path) -> bool:
    """Runs a session in a process of its own; its JVM writes the archive as it ends."""
    with tempfile.TemporaryDirectory(prefix=f"sinkproof-{os.getpid()}-") as scratch:
        command = [sys.executable, "-m", TRAINING, str(os.getpid()), scratch, str(archive)]
        process = subprocess.Popen(
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status = process.wait(TRAINING_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status == 0 and archive.exists()
