"""The ways in which connections break, as toxiproxy knows them, each as a kind of fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LATE_MS: Final = 2300  # our own clients wait for 2000
UP: Final = "upstream"  # requests on their way to the service
DOWN: Final = "downstream"  # replies


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One way to break a connection. Without a stream: nobody gets through at all."""

    sentence: str
    toxic: str = ""
    stream: str = ""
    attributes: Mapping[str, int] = field(default_factory=dict)


def _each_way(toxic: str, sentence: str, **attributes: int) -> dict[str, Toxic]:
    """`sentence`: about requests, or replies."""
    word = toxic.replace("limit_data", "cut").replace("reset_peer", "reset").replace("_", "-")
    return {
        f"net-{word}-{way}": Toxic(sentence=sentence.format(what), toxic=toxic, stream=stream, attributes=attributes)
        for way, stream, what in (("up", UP, "requests"), ("down", DOWN, "replies"))
    }


TOXICS: Final[Mapping[str, Toxic]] = {
    **_each_way("latency", "{} take longer than anybody waits, and then arrive", latency=LATE_MS),
    **_each_way("timeout", "{} vanish, and the connection stays open", timeout=0),
    **_each_way("reset_peer", "the connection is reset as soon as {} are on their way", timeout=0),
    **_each_way("limit_data", "the connection is cut in the middle of {}", bytes=40),
    **_each_way("bandwidth", "{} trickle, one kilobyte a second", rate=1),
    **_each_way("slow_close", "a connection that is closed lingers, as far as {} go", delay=1000),
    "net-down": Toxic(sentence="the network is down: connections are cut and refused"),
}
