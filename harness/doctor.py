"""What this machine has of all that certifications may need, and the one command that gets what it lacks."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from sinkproof.chaos.services import jars, kafka
from sinkproof.chaos.services.jvm import find_java, how_to_install, java_version
from sinkproof.chaos.services.places import ROOM_LEAST, cache_folder, data_home
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.spark_there import why_no_spark

MEMORY_LEAST: Final = 1 << 30  # bytes; a broker takes 300 MB, a Spark session 700
DOCKER_SOCKET: Final = "/var/run/docker.sock"
OK, LACKING, OPTIONAL = "ok", "lacking", "optional"


class Finding(NamedTuple):
    name: str
    state: str  # ok; lacking: something cannot be certified without it; optional: there is another way
    found: str
    next_step: str = ""


def examine(version: str) -> Iterator[Finding]:
    """In the order in which things depend on each other. `version`: of Kafka."""
    yield Finding("Python", OK, sys.version.split()[0])
    yield _memory()
    yield _data_room()
    yield _java()
    yield _spark()
    yield _client("confluent-kafka")
    yield _resolver()
    yield _kafka_jars(version)
    yield _kafka_running()
    yield _docker()


def _memory() -> Finding:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return Finding("memory", OPTIONAL, "this system does not say how much is free")
    state = OK if free >= MEMORY_LEAST else LACKING
    return Finding("memory", state, f"{free >> 20} MiB free", "" if state == OK else "End something else")


def _data_room() -> Finding:
    home = data_home()
    try:
        free = shutil.disk_usage(home).free
    except OSError as error:
        return Finding("room for data", LACKING, str(error), "Name a folder with SINKPROOF_SCRATCH")
    state = OK if free >= ROOM_LEAST and os.access(home, os.W_OK) else LACKING
    advice = "" if state == OK else "Name a folder that can be written and has a gigabyte with SINKPROOF_SCRATCH"
    return Finding("room for data", state, f"{free >> 20} MiB in {home}", advice)


def _java() -> Finding:
    try:
        java = find_java()
    except ServiceUnavailable as error:
        return Finding("Java", LACKING, error.evidence, error.next_step)
    return Finding("Java", OK, f"{java_version(java)} at {java}")


def _spark() -> Finding:
    problem = why_no_spark()
    if problem:
        what, _, advice = problem.partition("Run: ")
        return Finding("Spark", LACKING, what.strip(), f"Run: {advice}" if advice else "")
    return Finding("Spark", OK, f"PySpark {metadata.version('pyspark')}")


def _client(name: str) -> Finding:
    try:
        return Finding(name, OK, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, LACKING, "not installed", "Run: pip install 'sinkproof[kafka]'")


def _resolver() -> Finding:
    ways: list[tuple[str, Callable[[], object]]] = [("Maven", jars.maven), ("Ivy, from PySpark", jars.ivy)]
    found = [f"{name} at {place}" for name, find in ways if (place := find())]
    if found:
        return Finding("resolver of jars", OK, found[0])
    return Finding("resolver of jars", LACKING, "neither Maven nor PySpark", how_to_install(jars.INSTALL_MAVEN))


def _kafka_jars(version: str) -> Finding:
    if jars.is_resolved(kafka.jars_name(version)):
        return Finding("Kafka's jars", OK, f"{version} in {cache_folder()}")
    step = "Run: sinkproof services start kafka (it resolves them, once)"
    return Finding("Kafka's jars", OPTIONAL, f"{version} is not resolved yet", step)


def _kafka_running() -> Finding:
    service = kafka.running_kafka()
    if service is None:
        return Finding("a running Kafka", OPTIONAL, "none: who needs one starts and ends one of their own")
    problem = service.died_by_itself()
    if problem or not service.living():
        return Finding("a running Kafka", LACKING, problem or "it is stopped", "Run: sinkproof services stop kafka")
    return Finding("a running Kafka", OK, f"{service.spec.version} at {service.endpoint}")


def _docker() -> Finding:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(DOCKER_SOCKET)
        except OSError as error:
            return Finding("Docker", OPTIONAL, f"does not answer: {error}. Nothing needs it")
    return Finding("Docker", OK, f"answers at {DOCKER_SOCKET}")
