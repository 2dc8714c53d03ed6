"""Which Kafka is used: the one that was named, one that runs already, or a new one that ends with who asked for it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.jars import Artifact, resolved
from sinkproof.chaos.services.jvm import class_path, find_java, java_version
from sinkproof.chaos.services.kafka_external import ExternalKafka
from sinkproof.chaos.services.kafka_local import KIND, Installation, LocalKafka, Wanted, start_kafka
from sinkproof.chaos.services.kept import running
from sinkproof.chaos.services.places import cache_folder, locked, made_once, running_folder
from sinkproof.chaos.services.service import Progress, Service, ServiceError, ServiceUnavailable

VERSION: Final = "4.2.1"  # all that sinks rely on was measured with this one
LOGGING_VERSION: Final = "2.25.4"  # without this jar a broker logs nothing
VARIABLE: Final = "SINKPROOF_KAFKA"  # "local", or "external:HOST:PORT"
ARCHIVE: Final = "classes.jsa"
PLAIN: Final = Wanted()
# C1 only: a start takes 1.8 s of one core instead of 3.1. Under load for minutes it would be slower.
COMPILE_ONCE: Final = "-XX:TieredStopAtLevel=1"


def silent(_: str) -> None:
    """The progress of who does not look."""


@contextmanager
def use_kafka(
    where: str, *, version: str = "", wanted: Wanted = PLAIN, progress: Progress = silent
) -> Iterator[Service]:
    """`where`: "local", "external:HOST:PORT[,HOST:PORT]", or "": what SINKPROOF_KAFKA says, else the one that
    `services start` has started if it fits, else a new one. A new one is gone when the block ends.
    """
    chosen = where or where_to_look()
    kind, _, address = chosen.partition(":")
    if kind == "external" and address:
        yield ExternalKafka(address)
        return
    if chosen not in ("", "local"):
        raise ServiceUnavailable(
            f"{chosen!r} names no Kafka",
            evidence="known are local and external:HOST:PORT",
            next_step="Name one of them",
        )
    found = None if chosen else running_kafka(version=version, nodes=wanted.nodes)
    if found is not None:
        yield found
        return
    installation = short_lived(install(version or VERSION, progress=progress))
    with start_kafka(installation, wanted, version=version or VERSION) as service:
        yield service


def short_lived(installation: Installation) -> Installation:
    """For a broker that starts often and does little."""
    return replace(installation, options=(*installation.options, COMPILE_ONCE))


def where_to_look() -> str:
    """What SINKPROOF_KAFKA says."""
    return os.environ.get(VARIABLE, "")


def running_kafka(*, version: str = "", nodes: int = 0) -> LocalKafka | None:
    """The newest that runs until it is stopped, of this version and size if they are given."""
    for entry in reversed(running(KIND)):
        service = LocalKafka.attach(entry)
        fits = version in ("", service.spec.version) and nodes in (0, service.node_count)
        if not entry.owner and fits:
            return service
    return None


def start_detached(version: str, wanted: Wanted, *, progress: Progress) -> tuple[LocalKafka, bool]:
    """A cluster that runs until it is stopped, and whether it is new. Of two at once the second finds the first's."""
    installation = install(version, progress=progress)
    with locked(running_folder() / f".{KIND}.lock", on_wait=lambda: progress("another one is being started; waiting")):
        found = running_kafka()
        if found is not None and (found.spec.version, found.node_count) == (version, wanted.nodes):
            return found, False
        if found is not None:
            raise ServiceUnavailable(
                f"Kafka {found.spec.version} runs already at {found.endpoint}",
                evidence=f"its nodes: {found.node_count}",
                next_step="Run: sinkproof services stop kafka",
            )
        progress(f"starting Kafka {version}")
        return start_kafka(installation, wanted, version=version), True


def jars_name(version: str) -> str:
    return f"{KIND}-{version}"


def install(version: str, *, progress: Progress) -> Installation:
    """Java is there; jars and the archive of classes are made if they are missing."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(-\w+)?", version):
        raise ServiceUnavailable(
            f"{version!r} is no version of Kafka", evidence="a version is like 4.2.1", next_step="Name a released one"
        )
    java = find_java()
    artifacts = [
        Artifact("org.apache.kafka", "kafka_2.13", version),
        Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", LOGGING_VERSION),
    ]
    libs = resolved(jars_name(version), artifacts, progress=progress)
    plain = Installation(java=java, libs=str(libs))
    archive = _archive_folder(plain, libs)
    made_once(archive, lambda partial: _make_archive(partial, plain, version, progress=progress), progress=progress)
    if not (archive / ARCHIVE).exists():
        return plain
    options = ("-Xshare:auto", f"-XX:SharedArchiveFile={archive / ARCHIVE}")
    return Installation(java=java, libs=str(libs), options=options)


def _archive_folder(installation: Installation, libs: Path) -> Path:
    """One per Java and set of jars, and per place of theirs."""
    known = [os.path.realpath(installation.java), java_version(installation.java), class_path(libs)]
    key = hashlib.sha256(repr((known, libs.stat().st_mtime_ns)).encode()).hexdigest()[:16]
    return cache_folder() / f"{libs.name}-classes-{key}"


def _make_archive(partial: Path, installation: Installation, version: str, *, progress: Progress) -> None:
    """An archive of the classes that every broker loads (AppCDS): a start takes 3.1 s of one core instead of 5.3.

    A broker writes it when it ends. It is a convenience: where that fails, brokers start without it, and nobody waits
    for a second failure.
    """
    progress(f"preparing a faster start of Kafka {version} (only the first time)")
    training = Installation(
        java=installation.java, libs=installation.libs, options=(f"-XX:ArchiveClassesAtExit={partial / ARCHIVE}",)
    )
    try:
        with start_kafka(training, Wanted(), version=version) as service:
            service.stop()
    except ServiceError as error:
        (partial / "failed").write_text(str(error))
        (partial / ARCHIVE).unlink(missing_ok=True)
