"""The toxics of toxiproxy, each as a kind of fault: how a connection fails, and in which direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LATE_MS: Final = 2300  # request timeout of our own clients: 2000
UP: Final = "upstream"  # requests on their way to the service
DOWN: Final = "downstream"  # replies


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One way to break a connection. Without a stream: every connection is refused."""

    sentence: str
    toxic: str = ""
    stream: str = ""
    attributes: Mapping[str, int] = field(default_factory=dict)


def _each_way(toxic: str, sentence: str, **attributes: int) -> dict[str, Toxic]:
    """One kind for requests, one for replies. `sentence` has a placeholder for either word."""
    word = toxic.replace("limit_data", "cut").replace("reset_peer", "reset").replace("_", "-")
    return {
        f"net-{word}-{way}": Toxic(sentence=sentence.format(what), toxic=toxic, stream=stream, attributes=attributes)
        for way, stream, what in (("up", UP, "requests"), ("down", DOWN, "replies"))
    }


TOXICS: Final[Mapping[str, Toxic]] = {
    **_each_way("latency", "network latency: {} arrive after the client has timed out", latency=LATE_MS),
    **_each_way("timeout", "network partition: {} are lost, and the connection stays open", timeout=0),
    **_each_way("reset_peer", "connection reset: the connection is reset as soon as {} are in flight", timeout=0),
    **_each_way("limit_data", "truncated stream: the connection is closed in the middle of {}", bytes=40),
    **_each_way("bandwidth", "low bandwidth: {} arrive at one kilobyte per second", rate=1),
    **_each_way("slow_close", "slow close: a closed connection stays open for {} for another second", delay=1000),
    "net-down": Toxic(sentence="network down: connections are closed and refused"),
}
