"""A service: files behind HTTP, by Python's own server."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Sequence
from typing import Any

from sinkproof.canaries.inside_services.two_file_store import TWO_FILE_STORE
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.local_service import PORTS, LocalService, ServiceNode, WantedService, ports_for, started


class Shelf(LocalService):
    name = "shelf"
    title = "Shelf"

    @property
    def nodes(self) -> Sequence[ServiceNode]:
        return [ServiceNode(port=self.entry.details[PORTS][0])]

    @property
    def version(self) -> str:
        return str(self.entry.details["version"])

    def prepare(self) -> None:
        """It needs no files."""

    def command(self, node: ServiceNode) -> list[str]:
        return [
            sys.executable,
            "-m",
            "http.server",
            str(node.port),
            "--bind",
            node.host,
            "--directory",
            str(self.folder),
        ]

    def is_ready(self, node: ServiceNode) -> bool:
        try:
            with urllib.request.urlopen(f"http://{node.address}/") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def start(_: str, wanted: WantedService, *, version: str) -> Shelf:
    def reserve() -> dict[str, Any]:
        return {"version": version, PORTS: ports_for(1, named=wanted.ports_named)}

    return started(Shelf, wanted, reserve)


SHELF = Kind(
    service=Shelf,
    version="3",
    install=lambda version, *, progress: version,
    start=start,
    count_nodes=lambda address: 1,
    made_of="program",
    is_installed=lambda version: True,
)
STORE = TWO_FILE_STORE  # a second one, which is tried as another package registers it
