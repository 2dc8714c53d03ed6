"""The script that unpacks a container engine for tests, and does nothing on machines where it may not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ..support.bare_machine import bare_tools, program

NEEDED = ("mkdir", "mktemp", "mv", "rm", "chmod")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A machine that can download packages and has no container engine."""
    folder = bare_tools(tmp_path)
    for name in NEEDED:
        (folder / name).symlink_to(str(shutil.which(name)))
    program(folder, "apt-get", f'echo "$*" >> {tmp_path}/asked\n[ "$1" = download ] && : >docker.deb')
    program(folder, "dpkg-deb", 'mkdir -p "$3/usr/sbin" && : >"$3/usr/sbin/dockerd" && chmod +x "$3/usr/sbin/dockerd"')
    return folder


def run(project: Path, tools: Path) -> str:
    environment = {"PATH": str(tools), "XDG_CACHE_HOME": str(tools.parent / "cache")}
    done = subprocess.run(
        ["/bin/sh", str(project / ".ci/engine")], env=environment, capture_output=True, text=True, check=True
    )
    assert "" == done.stderr
    return done.stdout


def test_packages_are_unpacked_once_and_none_is_installed(project: Path, tools: Path) -> None:
    cache = tools.parent / "cache/sinkproof"
    assert f"into {cache}/engine (no dockerd was found)" in run(project, tools)
    assert [cache / "engine"] == list(cache.iterdir())
    assert (cache / "engine/usr/sbin/dockerd").exists()
    assert "" == run(project, tools)
    assert ["download docker.io containerd runc libdevmapper1.02.1 libseccomp2"] == (
        (tools.parent / "asked").read_text().splitlines()
    )


@pytest.mark.parametrize("machine", ["has one", "has another user", "has other packages", "is offline"])
def test_on_other_machines_nothing_is_unpacked_or_left_behind(project: Path, tools: Path, machine: str) -> None:
    if machine == "has one":
        program(tools, "dockerd", "exit 0")
    elif machine == "has another user":
        program(tools, "id", "echo 1000")
    elif machine == "has other packages":
        (tools / "dpkg-deb").unlink()
    else:
        program(tools, "apt-get", "exit 100")
    output = run(project, tools)
    assert ("unpacking" in output) is (machine == "is offline")
    assert not [*(tools.parent / "cache").glob("sinkproof/*")]
