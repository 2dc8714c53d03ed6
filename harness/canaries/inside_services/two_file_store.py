"""The store as a kind of service, as another package would register it (`sinkproof.services`), and its client."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from sinkproof.canaries.inside_services import store_server
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.chaos.services.local_service import (
    BREAKABLE,
    PORTS,
    LocalService,
    ServiceNode,
    WantedService,
    ports_for,
    started,
)

ANSWER_SECONDS: Final = 60.0


class LocalStore(LocalService):
    name = "two-file-store"
    title = "two-file store"
    words: ClassVar[Sequence[str]] = ()

    @property
    def nodes(self) -> Sequence[ServiceNode]:
        return [ServiceNode(port=self.entry.details[PORTS][0])]

    @property
    def version(self) -> str:
        return str(self.entry.details["version"])

    def prepare(self) -> None:
        """It makes its folder itself."""

    def command(self, node: ServiceNode) -> list[str]:
        script, folder = store_server.__file__, str(self.data_folder(node))
        return [sys.executable, "-P", script, node.address, folder, *self.words]

    def is_ready(self, node: ServiceNode) -> bool:
        try:
            return isinstance(request(node.address, "pending"), list)
        except OSError:
            return False


class HastyStore(LocalStore):
    """Acknowledges a commit before it is durable in all its files."""

    name = "hasty-store"
    title = "hasty store"
    words = ("hasty",)


def request(address: str, what: str, **more: Any) -> Any:
    """Raises OSError without an answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(json.dumps({"do": what, **more}).encode() + b"\n")
        with connection.makefile("rb") as lines:
            line = lines.readline()
    if not line:
        raise ConnectionError(f"the store at {address} has hung up")
    return json.loads(line)


def kind_of(service: type[LocalStore]) -> Kind[LocalStore]:
    def start(_: Path, wanted: WantedService, *, version: str) -> LocalStore:
        def reserve() -> dict[str, Any]:
            ports = ports_for(1, named=wanted.ports_named)
            return {"version": version, PORTS: ports, BREAKABLE: wanted.breakable}

        return started(service, wanted, reserve)

    return Kind(
        service=service,
        version="1",
        install=lambda version, *, progress: Path(store_server.__file__),
        start=start,
        count_nodes=lambda address: 1,
        made_of="program",
        is_installed=lambda version: True,
    )


TWO_FILE_STORE: Final = kind_of(LocalStore)
HASTY_STORE: Final = kind_of(HastyStore)
