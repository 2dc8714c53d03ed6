"""Which of the requests that a client in Python sends over TCP are struck: they leave its library at one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import is_line
from sinkproof.chaos.requests.socket_points import POINT as SENDS
from sinkproof.chaos.schedule import Fault
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import in_turn, passes
from sinkproof.generators.native_calls import BEFORE_CALLS

REQUESTS_MOST: Final = 24  # two to each of two sinks in three checkpoints, and a few more


def requests(baseline: RunResult, kind: str) -> list[Fault]:
    """In turn of the calls of the sink, and apart the last one of each; the first and the last time first: if no reply
    is awaited, the next request might show that this one is lost.
    """
    calls: list[tuple[str, list[Fault]]] = []
    sent: dict[str, list[Fault]] = {}  # by actor, in its latest call
    for actor, point, occurrence in passes(baseline):
        if point in BEFORE_CALLS or actor not in sent:
            sent[actor] = []
            calls.append((point, sent[actor]))
        if point == SENDS and KINDS[kind].applies(actor, point):
            sent[actor].append(Fault(actor, point, occurrence, kind))
    groups: dict[tuple[str, bool], list[Fault]] = {}
    for call, faults in calls:
        groups.setdefault((call, True), []).extend(faults[-1:])
        groups.setdefault((call, False), []).extend(faults[:-1])
    ends_first = (dict.fromkeys((*faults[:1], *faults[-1:], *faults)) for faults in groups.values())
    return [*in_turn(ends_first)][:REQUESTS_MOST]


def further_requests(run: RunResult, call: str, kind: str) -> Iterator[Fault]:
    """The second and the last one that a line sends within such a call, as a head and its body: the first time."""
    sent: dict[tuple[str, str], list[Fault]] = {}
    line, inside = dict[str, str](), dict[str, int]()  # by actor
    for actor, point, occurrence in passes(run):
        if point == f"{call}.before":
            inside[actor] = occurrence
        elif point == f"{call}.after":
            inside.pop(actor, None)
        elif is_line(point):
            line[actor] = point
        elif actor in inside and point == SENDS:
            sent.setdefault((line.get(actor, ""), f"{actor} {inside[actor]}"), []).append(
                Fault(actor, point, occurrence, kind)
            )
    several = {place: faults for (place, _), faults in reversed(sent.items()) if len(faults) > 1}
    for faults in several.values():
        yield from dict.fromkeys((faults[1], faults[-1]))
