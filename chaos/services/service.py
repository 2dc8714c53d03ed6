"""What an external system offers to those who break it on purpose, whoever runs it and wherever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Progress = Callable[[str], None]  # one line for who waits


def silent(_: str) -> None:
    """The progress of who does not look."""


class ServiceError(Exception):
    """Something about a service: what happened, the evidence, the next step."""

    def __init__(self, what: str, *, evidence: str, next_step: str) -> None:
        super().__init__(f"{what}: {evidence}. {next_step}")
        self.what, self.evidence, self.next_step = what, evidence, next_step


class ServiceUnavailable(ServiceError):
    """Something is missing, taken or misspelt: whoever runs the command can mend it and try again."""


class ServiceFailed(ServiceError):
    """It was started as it should be and did not do what it should: what it said last is the evidence."""


class Service(Protocol):
    """One external system of one or more nodes, numbered from 1. Where no node is named, all of them are meant.

    Calls return when it is done: what is killed is dead, what is started answers. They may come from any process, but
    not from two at once. Each raises ServiceError.
    """

    @property
    def name(self) -> str:
        """Which kind of system: "kafka"."""

    @property
    def identity(self) -> str:
        """Of this system with its data: where one has ended, another may be found at the same address."""

    @property
    def endpoint(self) -> str:
        """Where sinks find it; may lead through something that breaks connections."""

    @property
    def direct_endpoint(self) -> str:
        """Where those find it who verify what the sinks did."""

    @property
    def node_count(self) -> int: ...

    def start(self, *, node: int | None = None) -> None:
        """What is not running runs again, on the data it left and at the same address."""

    def stop(self, *, node: int | None = None) -> None:
        """As an operator does: it may finish what it is doing."""

    def kill(self, *, node: int | None = None) -> None:
        """SIGKILL. What is paused dies as well."""

    def pause(self, *, node: int | None = None) -> None:
        """It does not answer, and it does not hang up. Connections are accepted by the kernel."""

    def resume(self, *, node: int | None = None) -> None: ...

    def restart(self, *, node: int | None = None) -> None:
        """Stopped, if it runs, and started."""

    def died_by_itself(self) -> str:
        """Which nodes ended though nobody told them to, and what they said last; "" if none did.

        Nothing is concluded about a sink from a run in which this is not "".
        """

    def close(self) -> None:
        """The end: nothing of it is left. Of a service that somebody else runs, only what we hold of it is released."""
