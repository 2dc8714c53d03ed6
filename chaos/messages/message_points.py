"""Names the messages between sinks and brokers as points, and arms the proxy that injects faults into them.

A broker is an actor, and each kind of message is one of its points: `broker[1].end_txn.reply#2=drop` loses the second
reply to a request to end a transaction. These faults are armed for the whole run, beside the others of the schedule.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sinkproof.chaos.schedule import Fault

BROKER: Final = "broker[1]"  # stands for all brokers: there is one proxy in front of them
ANSWER_SECONDS: Final = 20.0  # a held request takes effect after half a second
# A request that takes effect after its repetition may open a transaction again, or end a later one of its producer. A
# client that reuses ids and epochs cannot prevent this, so it is tried only where a contract has `late_requests`.
LATE: Final = "hold"


def is_message(fault: Fault) -> bool:
    return fault.actor == BROKER


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyStatus:
    """What passed through the proxy since it was armed."""

    counts: Mapping[str, int]  # message -> number of occurrences
    injected: tuple[Fault, ...]
    requests: int  # of every kind, since it was started
    request_bytes: int


class MessageFaults:
    """A client of the proxy. `address`: of its control port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def arm(self, faults: Iterable[Fault]) -> None:
        """A sender is killed only if it is a descendant of this process."""
        listed = [(fault.point, fault.occurrence, fault.kind) for fault in faults]
        self._request({"do": "arm", "faults": listed, "below": os.getpid()})

    def status(self) -> ProxyStatus:
        answer = self._request({"do": "status"})
        injected = tuple(Fault(BROKER, point, number, kind) for point, number, kind in answer["injected"])
        requests, request_bytes = answer["requests"], answer["request_bytes"]
        return ProxyStatus(counts=answer["passed"], injected=injected, requests=requests, request_bytes=request_bytes)

    def await_landing(self) -> None:
        """Waits until every held request has reached its broker."""
        self._request({"do": "land"})

    def reroute(self, routes: Mapping[int, int]) -> None:
        """New connections to these broker ports are made to other ports instead."""
        self._request({"do": "reroute", "routes": list(routes.items())})

    def _request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
                return answer
