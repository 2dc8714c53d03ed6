"""Arms the proxies in front of brokers with the message faults of a schedule, and reads which of them were injected."""

from __future__ import annotations

from dataclasses import replace

from sinkproof.chaos.messages.message_points import is_message
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.subject.contract import ContractError
from sinkproof.subject.services_in_use import ServicesInUse


def armed(schedule: Schedule, services: ServicesInUse) -> Schedule:
    """Arms the proxies; returns the rest of the schedule, for the engine."""
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
    return tuple(fault for proxy in services.proxies() for fault in proxy.status().injected)
