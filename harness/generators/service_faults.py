"""Which faults of external systems are tried, and where: each kind at each step of the commit window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.messages.message_points import LATE, is_message, places
from sinkproof.chaos.points import AROUND_CALLS, COMMIT_WINDOW, SINK_POINTS
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.generators.fault_sites import spread
from sinkproof.subject.contract import ContractError
from sinkproof.subject.services_in_use import ServicesInUse

if TYPE_CHECKING:
    from sinkproof.campaign.results import CampaignResults
    from sinkproof.execution.schedule_runner import RunResult, ScheduleRunner

NODE_KINDS: Final = ("service-kill", "service-stop", "service-pause")
DECIDED: Final = {"write.after", "checkpoint.persist.after"}  # rows are on their way; and must come out now
# Of which messages each one is struck. A delay takes seconds; what a client does about a late reply, it does about a
# late request as well.
EACH_OF: Final = {
    "drop": ("end_txn.request", "end_txn.reply"),
    "hold": ("end_txn.request",),
    "double": ("end_txn.request",),
    "delay": ("end_txn.reply",),
}


def armed(schedule: Schedule, services: ServicesInUse) -> Schedule:
    """What is left of a schedule for the engine when the proxies have got theirs."""
    messages = [fault for fault in schedule.faults if is_message(fault)]
    if messages and not services.proxies():
        raise ContractError(
            f"{messages[0]}: no proxy of ours stands between this sink and a broker. It does where the contract calls "
            "scratch.service('kafka', start=True) in its `setup`, and no external broker is named"
        )
    for proxy in services.proxies():
        proxy.arm(messages)
    return replace(schedule, faults=tuple(fault for fault in schedule.faults if not is_message(fault)))


def struck_messages(services: ServicesInUse) -> tuple[Fault, ...]:
    return tuple(fault for proxy in services.proxies() for fault in proxy.look().struck)


def message_faults(baseline: ScheduleRunner) -> Iterator[Schedule]:
    """Right after a run without faults: each end of a transaction, and the first of all other messages."""
    counts = Counter[str]()
    for proxy in baseline.scratch.services.proxies():
        counts.update(proxy.look().counts)
    kinds = [kind for kind in EACH_OF if kind != LATE or baseline.contract.offers("late_requests")]
    turns = zip_longest(*(places(counts, kind, every=EACH_OF[kind]) for kind in kinds))
    yield from (Schedule((fault,)) for turn in turns for fault in turn if fault is not None)


def node_faults(baseline: RunResult, results: CampaignResults, *, near_only: bool = False) -> Iterator[Schedule]:
    """Steps next to a request first, or only those; kinds in turn: each takes seconds, and a short budget is to see
    something of all.
    """
    if not results.services.breakable():
        return
    near = {point for point in results.passed if point in SINK_POINTS} or {*AROUND_CALLS}
    near |= DECIDED
    for steps in (COMMIT_WINDOW & near, *([] if near_only else [COMMIT_WINDOW - near])):
        kinds = NODE_KINDS if results.services.network() is None else (*TOXICS, *NODE_KINDS)
        turns = zip_longest(*(_of_kind(kind, baseline, results, steps=steps) for kind in kinds))
        yield from (schedule for turn in turns for schedule in turn if schedule is not None)


def _of_kind(kind: str, baseline: RunResult, results: CampaignResults, *, steps: frozenset[str]) -> Iterator[Schedule]:
    """Once at each step: the first time that it is passed, or where a recovery has passed it."""
    found = {fault.point: Schedule((fault,)) for fault in spread(baseline, kind, times=1)}
    for point, reaching in results.reaching.items():
        for before, fault in reaching[:1]:
            if KINDS[kind].applies(fault.actor, point):
                found.setdefault(point, replace(before, faults=(*before.faults, replace(fault, kind=kind))))
    yield from (schedule for point, schedule in found.items() if point in steps)
