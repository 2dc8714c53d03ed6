"""A service that sinkproof does not run, given by its address: it is only used, and no fault is injected into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sinkproof.chaos.services.service import ServiceUnavailable


class ExternalService:
    """Implements Service. Operations on its processes are refused. `count_nodes`: as in Kind."""

    def __init__(self, endpoint: str, *, name: str, title: str, count_nodes: Callable[[str], int]) -> None:
        self.identity = self.endpoint = self.direct_endpoint = endpoint
        self.name, self.title, self._count_nodes = name, title, count_nodes
        self.node_count = self._connect()

    def start(self, *, node: int | None = None) -> None:
        self._refuse("started")

    def stop(self, *, node: int | None = None) -> None:
        self._refuse("stopped")

    def kill(self, *, node: int | None = None) -> None:
        self._refuse("killed")

    def pause(self, *, node: int | None = None) -> None:
        self._refuse("paused")

    def resume(self, *, node: int | None = None) -> None:
        self._refuse("resumed")

    def restart(self, *, node: int | None = None) -> None:
        self._refuse("restarted")

    def died_by_itself(self) -> str:
        try:
            self._connect()
        except ServiceUnavailable as error:
            return str(error)
        return ""

    def close(self) -> None:
        """There is nothing to release."""

    def _connect(self) -> int:
        problems = []
        nodes, mark, file = self.endpoint.partition("@")  # the file has settings of its clients
        for address in nodes.split(","):
            try:
                return self._count_nodes(address + mark + file)
            except (OSError, ValueError) as error:
                problems.append(f"{address}: {error}")
        raise ServiceUnavailable(
            f"no {self.title} answers at {self.endpoint}",
            evidence="; ".join(problems),
            next_step="Check the address; a Kafka that wants TLS or a password is external:HOST:PORT@FILE",
        )

    def _refuse(self, what: str) -> NoReturn:
        raise ServiceUnavailable(
            f"the {self.title} at {self.endpoint} cannot be {what}",
            evidence="it is external: sinkproof does not run it",
            next_step="Leave out its address: then sinkproof starts one, into which it can inject faults",
        )
