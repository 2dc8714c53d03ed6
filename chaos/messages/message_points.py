"""Messages between sinks and brokers as places for faults, and the way to the proxy that breaks them.

A broker is an actor, and each kind of message a point of it: `broker[1].end_txn.reply#2=drop` loses the second answer
to a request to end a transaction. Such faults are armed for the whole run, beside the others of the schedule.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sinkproof.chaos.points import MESSAGE_POINTS
from sinkproof.chaos.schedule import Fault

BROKER: Final = "broker[1]"  # whoever it is: there is one proxy in front of all
ANSWER_SECONDS: Final = 20.0  # landing takes half a second
# A request that lands after its repetition may open a transaction again, or end a later one of the same producer:
# clients that use ids and epochs again cannot help it. It is tried only where a contract says `late_requests`.
LATE: Final = "hold"


def is_message(fault: Fault) -> bool:
    return fault.actor == BROKER


def applies_to(actor: str, point: str, kinds: Iterable[str]) -> bool:
    """Whether this is one of these messages: "end_txn.request", or "reply" for all of those."""
    return actor == BROKER and any(f".{point}".endswith(f".{kind}") for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What the proxy has seen since it was armed."""

    counts: Mapping[str, int]  # message -> how many of it
    struck: tuple[Fault, ...]
    requests: int  # of every kind, since it was started
    request_bytes: int


class MessageFaults:
    """`address`: where the proxy takes orders."""

    def __init__(self, address: str) -> None:
        self.address = address

    def arm(self, faults: Iterable[Fault]) -> None:
        self._ask({"do": "arm", "faults": [(fault.point, fault.occurrence, fault.kind) for fault in faults]})

    def look(self) -> Passed:
        answer = self._ask({"do": "look"})
        struck = tuple(Fault(BROKER, point, number, kind) for point, number, kind in answer["struck"])
        requests, request_bytes = answer["requests"], answer["request_bytes"]
        return Passed(counts=answer["passed"], struck=struck, requests=requests, request_bytes=request_bytes)

    def await_landing(self) -> None:
        """Until nothing is on its way without a client."""
        self._ask({"do": "land"})

    def lead(self, ways: Mapping[int, int]) -> None:
        """From now on whoever connects is led to these ports of brokers by way of others."""
        self._ask({"do": "lead", "ways": list(ways.items())})

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
                return answer


def places(counts: Mapping[str, int], kind: str, *, every: Iterable[str] = ()) -> Iterator[Fault]:
    """The first of each message that this kind can strike; each one of those named by `every`."""
    from sinkproof.chaos.faults import KINDS

    for point in MESSAGE_POINTS:
        if KINDS[kind].applies(BROKER, point):
            passed = counts.get(point, 0)
            most = passed if point in every else min(passed, 1)
            yield from (Fault(BROKER, point, number, kind) for number in range(1, most + 1))
