"""Resolves the jars of a service once, with Maven or with the Ivy of PySpark; later runs need no network.

Both read the user's own settings, so mirrors and proxies of a company are used.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from sinkproof.chaos.services.build_tools import Tool, ToolFailed
from sinkproof.chaos.services.cache_folders import cache_folder, made_once
from sinkproof.chaos.services.jvm import find_java, how_to_install
from sinkproof.chaos.services.service import Progress, ServiceUnavailable

DONE: Final = re.compile(r"Downloaded from |\[SUCCESSFUL *\]", re.MULTILINE)  # one file, in the output of Maven and Ivy
INSTALL_MAVEN: Final = {
    "apt-get": "apt-get install -y maven",
    "dnf": "dnf install -y maven",
    "apk": "apk add maven",
    "pacman": "pacman -S --noconfirm maven",
}
POM: Final = """<project><modelVersion>4.0.0</modelVersion>
<groupId>sinkproof</groupId><artifactId>services</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{}
</dependencies></project>
"""
DEPENDENCY: Final = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
IVY_MODULE: Final = """<ivy-module version="2.0"><info organisation="sinkproof" module="services"/><dependencies>
{}
</dependencies></ivy-module>
"""
IVY_DEPENDENCY: Final = '<dependency org="{}" name="{}" rev="{}" conf="default"/>'
REASON: Final = re.compile(r"^(?:\[ERROR\]|\W*UNRESOLVED|\tERRORS|:: .*not found)(.*\S.*)$", re.MULTILINE)
TOOL: Final = Tool(counted=DONE, reason=REASON)


class Artifact(NamedTuple):
    group: str
    name: str
    version: str


def resolved(name: str, artifacts: Sequence[Artifact], *, progress: Progress) -> Path:
    """The folder with the jars of these artifacts and of their dependencies. `name`: of the folder in the cache."""
    folder = cache_folder() / name
    made_once(folder, lambda partial: _resolve(partial, artifacts, progress), progress=progress)
    return folder


def is_resolved(name: str) -> bool:
    return (cache_folder() / name).is_dir()


def maven() -> str | None:
    return shutil.which("mvn")


def ivy() -> Path | None:
    """The jar in PySpark's folder, found without importing PySpark."""
    spec = find_spec("pyspark")
    places = spec.submodule_search_locations if spec is not None else None
    found = [jar for place in places or () for jar in sorted(Path(place).glob("jars/ivy-2*.jar"))]
    return found[-1] if found else None


def _resolve(partial: Path, artifacts: Sequence[Artifact], progress: Progress) -> None:
    what = " and ".join(f"{artifact.name} {artifact.version}" for artifact in artifacts)
    failures = []

    def report(by: str, text: str) -> None:
        progress(f"resolving {what} with {by}: {text}")

    for label, resolve in (("Maven", _with_maven), ("Ivy", _with_ivy)):
        work = partial / "work"
        work.mkdir()
        try:
            resolve(work, artifacts, functools.partial(report, label))
            shutil.rmtree(work)
            _check(partial, artifacts)
        except ToolFailed as failure:
            failures.append(f"{label}: {failure}")
            for jar in partial.iterdir():
                shutil.rmtree(jar) if jar.is_dir() else jar.unlink()
            continue
        progress(f"{len(list(partial.iterdir()))} jars are in {cache_folder()}")
        return
    raise ServiceUnavailable(
        f"the jars of {what} cannot be resolved",
        evidence="; ".join(failures),
        next_step="Check the version and the network (mirrors belong into Maven's settings.xml); "
        f"without Maven: {how_to_install(INSTALL_MAVEN)}",
    )


def _check(folder: Path, artifacts: Sequence[Artifact]) -> None:
    """A resolver may end with status 0 although a jar is missing."""
    for artifact in artifacts:
        jar = folder / f"{artifact.name}-{artifact.version}.jar"
        if not jar.is_file() or not jar.stat().st_size:
            raise ToolFailed(f"it ended without an error, but {jar.name} is missing")


def _with_maven(work: Path, artifacts: Sequence[Artifact], report: Progress) -> None:
    program = maven()
    if program is None:
        raise ToolFailed("there is no `mvn` on the PATH")
    pom = work / "pom.xml"
    pom.write_text(POM.format("\n".join(DEPENDENCY.format(*artifact) for artifact in artifacts)))
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work.parent}"]
    TOOL.run([program, "--batch-mode", "--file", str(pom), *goal], work, report)


def _with_ivy(work: Path, artifacts: Sequence[Artifact], report: Progress) -> None:
    jar = ivy()
    if jar is None:
        raise ToolFailed("PySpark, which contains it, is not installed")
    module = work / "ivy.xml"
    module.write_text(IVY_MODULE.format("\n".join(IVY_DEPENDENCY.format(*artifact) for artifact in artifacts)))
    options = ["-ivy", str(module), "-confs", "default", "-types", "jar", "bundle"]
    target = ["-retrieve", f"{work.parent}/[artifact]-[revision](-[classifier]).[ext]"]
    TOOL.run([find_java(), f"-Djava.io.tmpdir={work}", "-jar", str(jar), *options, *target], work, report)
