"""A machine with next to nothing for the scripts of .ci: a PATH of one folder, a package manager that logs requests."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("sh", "sed", "head", "tail", "cp", "cat")


@dataclass(frozen=True)
class Installer:
    """A script of .ci, the program that it installs, and the request that it sends to a package manager."""

    name: str
    what: str
    apt: str
    variable: str

    def works(self, folder: Path) -> None:
        program(folder, self.name, "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")

    def does_not_work(self, folder: Path) -> None:
        program(folder, self.name, "exit 1")


JAVA = Installer("java", "Java >= 17", "apt-get install -y openjdk-17-jre-headless", "JAVA_HOME")
CHROMIUM = Installer("chromium", "Chromium", "apt-get install -y --no-install-recommends chromium", "CHROMIUM")


def program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def java(folder: Path, version: str) -> None:
    program(folder, "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def bare_tools(tmp_path: Path) -> Path:
    """A PATH that holds what the scripts need, and nothing that installs, browses or answers as Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        (folder / name).symlink_to(str(shutil.which(name)))
    program(folder, "id", "echo 0")
    return folder


class Bare:
    """A machine on which an installer is run."""

    def __init__(self, installer: Installer, *, script: Path, tmp_path: Path) -> None:
        self.installer, self.script, self.asked = installer, script, tmp_path / "asked"
        self.tools = bare_tools(tmp_path)

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        chosen = {"PATH": str(self.tools), **environment}
        return subprocess.run(["/bin/sh", str(self.script)], env=chosen, capture_output=True, text=True)

    def apt_get(self, *, works_for: str = "*", works_after: str = "", brings_what_works: bool = True) -> None:
        """A package manager that installs for requests like `works_for`, perhaps only after `works_after`."""
        bring = self.installer.works if brings_what_works else self.installer.does_not_work
        bring(self.tools / "package")
        name = self.installer.name
        program(
            self.tools,
            "apt-get",
            f'echo "$*" >> {self.asked}\ncase "$*" in update*) exit 0 ;; esac\n'
            f'case "$(cat {self.asked})" in *{works_after}*) ;; *) exit 100 ;; esac\n'
            f'case "$*" in {works_for}) cp {self.tools}/package/{name} {self.tools}/{name}; exit 0 ;; esac\n'
            'echo "E: Unable to locate package"; exit 100',
        )
