"""The protocol of an external system into which faults can be injected, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Progress = Callable[[str], None]  # receives one line for the user


def silent(_: str) -> None:
    """Discards progress."""


class ServiceError(Exception):
    """An error of a service: what happened, the evidence, the next step."""

    def __init__(self, what: str, *, evidence: str, next_step: str) -> None:
        super().__init__(f"{what}: {evidence}. {next_step}")
        self.what, self.evidence, self.next_step = what, evidence, next_step


class ServiceUnavailable(ServiceError):
    """Something is missing, in use or misspelt: the user can correct it and try again."""


class ServiceFailed(ServiceError):
    """A service was started correctly and failed; the evidence is its last output."""


class Service(Protocol):
    """One external system of one or more nodes, numbered from 1. `node=None` means all nodes.

    A call returns when its effect is complete: a killed node is dead, a started node serves clients. Calls may come
    from any process, but not from two at the same time. Each raises ServiceError.
    """

    @property
    def name(self) -> str:
        """The kind of system: "kafka"."""

    @property
    def identity(self) -> str:
        """Identifies this system and its data: a later system may have the same address."""

    @property
    def endpoint(self) -> str:
        """The address for sinks; may be that of a proxy."""

    @property
    def direct_endpoint(self) -> str:
        """The address for readers that verify the sinks; never that of a proxy."""

    @property
    def node_count(self) -> int: ...

    def start(self, *, node: int | None = None) -> None:
        """Starts every dead node again, with its data and at the same address."""

    def stop(self, *, node: int | None = None) -> None:
        """An orderly shutdown (SIGTERM)."""

    def kill(self, *, node: int | None = None) -> None:
        """SIGKILL. Paused nodes die as well."""

    def pause(self, *, node: int | None = None) -> None:
        """SIGSTOP: it neither replies nor closes connections; the kernel accepts new ones."""

    def resume(self, *, node: int | None = None) -> None: ...

    def restart(self, *, node: int | None = None) -> None:
        """Stops it if it runs, and starts it."""

    def died_by_itself(self) -> str:
        """The nodes that ended without a request to end, with their last output; "" if there are none.

        A run in which this is not "" gives no verdict about a sink.
        """

    def close(self) -> None:
        """Ends the service and removes its data. Of an external service it releases local resources only."""
