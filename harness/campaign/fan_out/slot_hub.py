"""In the driver: offers slots as long Spark tasks, and passes messages between campaigns and the slots.

There are more tasks than a cluster has cores: those without a core wait in Spark's queue, so that an executor that
comes later, or in the place of a lost one, gets some of them without being asked for.
"""

from __future__ import annotations

import os
import queue
import select
import threading
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.campaign.fan_out.hub_connection import CAMPAIGNS, SLOTS
from sinkproof.campaign.fan_out.slot_task import SlotOrder, SlotSeen, serve_slot
from sinkproof.chaos.shared.event_log import EventLog
from sinkproof.reference_engine.shells.spark.control_messages import (
    BACKLOG,
    SILENCE_SECONDS,
    Address,
    ControlConnection,
    Message,
    address_of,
    listen,
)
from sinkproof.reference_engine.shells.spark.guarded_entrance import Entrance
from sinkproof.reference_engine.shells.spark.host_addresses import master_address, on_one_host, own_address

if TYPE_CHECKING:
    import socket

SLOTS_MOST: Final = 512
EVENTS: Final = "hub-events"
REFUSALS_KEPT: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOrder:
    """`campaigns`: the path of the socket for them. `slot`: what each slot is given."""

    campaigns: str
    master: str
    slot: SlotOrder


@dataclass(frozen=True, slots=True)
class HubState:
    """`slots`: those that can be used; `unfit`: others. `failed`: tasks. `ended`: why the whole job did."""

    slots: tuple[SlotSeen, ...]
    unfit: tuple[SlotSeen, ...]
    failed: int
    ended: str


class Peer:
    """A connection. A thread sends, so that a slow reader delays no other; `number` is that of a slot or a campaign."""

    def __init__(self, connection: ControlConnection, number: int) -> None:
        self.connection, self.number = connection, number
        self.seen = SlotSeen("", 0, "")  # of a slot
        self.outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        threading.Thread(target=self._send, daemon=True).start()

    def say(self, *message: Any) -> None:
        self.outbox.put(message)

    def _send(self) -> None:
        while (message := self.outbox.get()) is not None:
            self.connection.send(*message)

    def end(self) -> None:
        self.outbox.put(None)
        self.connection.hang_up()
        self.connection.close()


class SlotHub:
    def __init__(self, session: Any, order: HubOrder) -> None:
        self.session, self.order = session, order
        self.poll = select.epoll()
        self.numbers = count()
        self.campaigns: dict[int, Peer] = {}
        self.slots: dict[int, Peer] = {}
        self.workers: dict[tuple[int, int], int] = {}  # number of a campaign, key of its worker -> slot
        self.peers: dict[int, tuple[str, Peer]] = {}  # by descriptor
        self.unfit: list[SlotSeen] = []
        self.ended = ""
        events = EventLog(Path(order.campaigns).with_name(EVENTS))
        for_campaigns, for_slots, secret = _listen_at(order.campaigns), self._for_slots(), order.slot.secret
        self.entrances = {
            "campaign": Entrance(for_campaigns, self.poll, secret=secret, destination=CAMPAIGNS, events=events),
            "slot": Entrance(for_slots, self.poll, secret=secret, destination=SLOTS, events=events),
        }
        self.address: Address = address_of(for_slots) if not on_one_host(order.master) else f"{order.campaigns}-slots"
        threading.Thread(target=self.serve, daemon=True).start()
        threading.Thread(target=self.offer, daemon=True).start()

    def _for_slots(self) -> socket.socket:
        if on_one_host(self.order.master):
            return _listen_at(f"{self.order.campaigns}-slots")
        return listen("tcp", "", host=own_address(master_address(self.order.master)))

    # -- the Spark job -----------------------------------------------------------------------------

    def offer(self) -> None:
        context, order, address = self.session.sparkContext, self.order.slot, self.address
        try:
            context.setJobDescription("slots for the campaigns of sinkproof certify")
            context.parallelize(range(SLOTS_MOST), SLOTS_MOST).mapPartitions(
                lambda _: serve_slot(order, address)
            ).collect()
            self.ended = "its tasks ended"
        except Exception as error:  # the border: any failure of Spark is reported as text
            self.ended = f"{type(error).__name__}: {error}"[-1000:]

    def failed_tasks(self) -> int:
        tracker = self.session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return sum(stage.numFailedTasks for stage in stages if stage is not None)

    # -- messages ----------------------------------------------------------------------------------

    def serve(self) -> None:
        while True:
            patience = min(entrance.patience(60.0) for entrance in self.entrances.values())
            for descriptor, _ in self.poll.poll(patience):
                self._serve(descriptor)
            for entrance in self.entrances.values():
                entrance.drop_late()

    def _serve(self, descriptor: int) -> None:
        if descriptor in self.peers:
            self._read(descriptor)
            return
        kind = next((kind for kind, entrance in self.entrances.items() if entrance.owns(descriptor)), "")
        if kind and (admitted := self.entrances[kind].ready(descriptor)) is not None:
            self._admit(kind, ControlConnection.admitted(admitted, silence=SILENCE_SECONDS))

    def _admit(self, kind: str, connection: ControlConnection) -> None:
        peer = Peer(connection, next(self.numbers))
        self.peers[connection.fileno()] = kind, peer
        self.poll.register(connection.fileno(), select.EPOLLIN)
        if kind == "campaign":
            self.campaigns[peer.number] = peer
            for slot in self.slots.values():
                peer.say("joined", slot.number, slot.seen.host)

    def _read(self, descriptor: int) -> None:
        kind, peer = self.peers[descriptor]
        messages = peer.connection.receive()
        if messages is None:
            self.poll.unregister(descriptor)
            del self.peers[descriptor]
            peer.end()
            (self._campaign_gone if kind == "campaign" else self._slot_gone)(peer)
        for message in messages or ():
            getattr(self, f"{kind}_{message[0]}")(peer, *message[1:])

    def _campaign_gone(self, campaign: Peer) -> None:
        self.campaigns.pop(campaign.number, None)
        for key in [key for key in self.workers if key[0] == campaign.number]:
            self._to_slot(self.workers.pop(key), "end", key)

    def _slot_gone(self, slot: Peer) -> None:
        self.slots.pop(slot.number, None)
        said = f"its executor on {slot.seen.host} is gone, or the Python process of its task there"
        for key in [key for key, number in self.workers.items() if number == slot.number]:
            del self.workers[key]
            self._to_campaign(key, "ended", key[1], said, None)

    def _to_slot(self, number: int, *message: Any) -> bool:
        if number in self.slots:
            self.slots[number].say(*message)
        return number in self.slots

    def _to_campaign(self, key: tuple[int, int], *message: Any) -> None:
        if key[0] in self.campaigns:
            self.campaigns[key[0]].say(*message)

    # of a slot

    def slot_slot(self, slot: Peer, seen: SlotSeen) -> None:
        slot.seen = seen
        if seen.why:
            self.unfit = [*self.unfit, seen][:REFUSALS_KEPT]
            return
        self.slots[slot.number] = slot
        for campaign in self.campaigns.values():
            campaign.say("joined", slot.number, seen.host)

    def slot_from(self, slot: Peer, key: tuple[int, int], message: bytes) -> None:
        self._to_campaign(key, "from", key[1], message)

    def slot_ended(self, slot: Peer, key: tuple[int, int], said: str) -> None:
        if self.workers.pop(key, None) is not None:
            self._to_campaign(key, "ended", key[1], said, slot.number)

    # of a campaign

    def campaign_spawn(self, campaign: Peer, slot: int, worker: int, *life: Any) -> None:
        """`life`: the entry of a worker process, and its arguments."""
        key = campaign.number, worker
        if self._to_slot(slot, "spawn", key, *life):
            self.workers[key] = slot
        else:
            campaign.say("ended", worker, "its slot is gone", None)

    def campaign_to(self, campaign: Peer, worker: int, message: bytes) -> None:
        key = campaign.number, worker
        if key in self.workers:
            self._to_slot(self.workers[key], "to", key, message)

    def campaign_end(self, campaign: Peer, worker: int) -> None:
        key = campaign.number, worker
        if key in self.workers:
            self._to_slot(self.workers[key], "end", key)


def _listen_at(path: str) -> socket.socket:
    import socket

    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    os.chmod(path, 0o600)
    listening.listen(BACKLOG)
    return listening


HUBS: Final[list[SlotHub]] = []  # the one of this driver


def open_hub(session: Any, order: HubOrder) -> None:
    """Called in the driver."""
    HUBS.append(SlotHub(session, order))


def look(session: Any) -> HubState:
    """Called in the driver."""
    hub = HUBS[-1]
    slots = tuple(slot.seen for slot in list(hub.slots.values()))
    return HubState(slots, tuple(hub.unfit), hub.failed_tasks(), hub.ended)
