"""The body of a Spark task: a slot, in which campaigns run their worker processes for as long as the task lives.

It proves to the hub that it belongs to this certification, says whether its host has the same code, and then passes
messages between the hub and its worker processes. They die with it, however it ends.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from sinkproof.campaign.fan_out.hub_connection import SLOTS, connected_to
from sinkproof.campaign.fan_out.loaded_code import WORKERS, LoadedCode, go_to, loaded_code
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child import ChildProcess
from sinkproof.chaos.processes.child_channel import Inside, resolve
from sinkproof.chaos.processes.current_step import StepStatus
from sinkproof.chaos.processes.spawn import ForkServer, ForkServerError, NoReply
from sinkproof.reference_engine.shells.spark.control_messages import Address, ControlConnection, control_connection
from sinkproof.reference_engine.shells.spark.host_addresses import own_address
from sinkproof.subject.scratch import sweep_folders_of_the_dead

LIFE: Final = "sinkproof.campaign.fan_out.slot_task:live"
SEND_SECONDS: Final = 60.0  # a worker that reads nothing for so long is killed
Key = tuple[int, int]  # number of a campaign, and of its worker


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOrder:
    """`path`: where the certifier looks for modules. `expected`: what it has loaded there. `folder`: its own.
    `secret`: of this certification.
    """

    secret: bytes = field(repr=False)
    locators: Sequence[str]
    expected: LoadedCode
    path: Sequence[str]
    folder: str


@dataclass(frozen=True, slots=True)
class SlotSeen:
    host: str
    pid: int
    why: str  # why nothing can run there; empty: it can


def serve_slot(order: SlotOrder, address: Address) -> list[str]:
    """Returns when the hub, at this address, has ended the connection."""
    if isinstance(address, str):
        hub = connected_to(address, order.secret, destination=SLOTS)
    else:
        hub = control_connection(address, order.secret, destination=SLOTS)
    before = list(sys.path)
    sys.path += [folder for folder in order.path if folder not in before and os.path.isdir(folder)]
    try:
        sweep_folders_of_the_dead()
        with _started() as server:
            if isinstance(server, str):
                why = f"cannot start worker processes: {server}"
            else:
                why = order.expected.differs(loaded_code(server, order.locators, folder=order.folder))
            hub.send("slot", SlotSeen(host_of(address), os.getpid(), why))
            if isinstance(server, str):
                hub.receive()  # until the hub ends the connection: else Spark would begin the next task here
            else:
                Slot(hub, server, folder=order.folder, host=host_of(address)).serve()
    finally:
        sys.path[:] = before  # Spark uses this process for other tasks, too
        hub.close()
    return []


def host_of(hub: Address) -> str:
    """This host, for people."""
    name = socket.gethostname()
    return name if isinstance(hub, str) else f"{name} ({own_address(hub)})"


@contextmanager
def _started() -> Iterator[ForkServer | str]:
    """Or why it cannot be."""
    with ExitStack() as stack:
        try:
            server: ForkServer | str = stack.enter_context(ForkServer(preload=WORKERS))
        except ForkServerError as error:
            server = str(error)
        yield server


class Slot:
    def __init__(self, hub: ControlConnection, server: ForkServer, *, folder: str, host: str) -> None:
        self.hub, self.server, self.folder, self.host = hub, server, folder, host
        self.children: dict[Key, tuple[ChildProcess, StepStatus]] = {}

    def serve(self) -> None:
        """Until the hub ends the connection."""
        while True:
            watched: list[Any] = [
                self.hub,
                self.server.control,
                *(child.channel for child, _ in self.children.values()),
            ]
            ready = select.select(watched, [], [])[0]
            if self.hub in ready:
                messages = self.hub.receive()
                if messages is None:
                    return
                for message in messages:
                    getattr(self, "do_" + message[0])(*message[1:])
            self.server.receive_notices()
            for key in list(self.children):
                self._pass_on(key)

    def _pass_on(self, key: Key) -> None:
        child, status = self.children[key]
        try:
            while (message := child.take()) is not None:
                self.hub.send("from", key, message)
        except NoReply as ended:
            words = child.output.tail().strip()[-300:] or "none"
            self._end(key, f"{ended.silence.value} on {self.host} while {status}; its last words: {words}")
            return
        child.output.cut()

    def _end(self, key: Key, said: str) -> None:
        child, status = self.children.pop(key)
        with suppress(ForkServerError):
            child.kill()
        child.close()
        status.close()
        self.hub.send("ended", key, said)

    def do_spawn(self, key: Key, entry: str, arguments: tuple[Any, ...]) -> None:
        status = StepStatus()
        child = self.server.spawn(LIFE, self.folder, (entry, arguments), descriptors=[status.descriptor])
        self.children[key] = child, status

    def do_to(self, key: Key, message: bytes) -> None:
        if key not in self.children:
            return  # it has ended meanwhile, and the campaign will read so
        try:
            self.children[key][0].send(message, Deadline(SEND_SECONDS))
        except NoReply as silence:
            self._end(key, f"{silence.silence.value} on {self.host}")

    def do_end(self, key: Key) -> None:
        if key in self.children:
            self._end(key, "ended by its campaign")


def live(inside: Inside, folder: str, life: tuple[str, tuple[Any, ...]]) -> None:
    """The entry of a worker process. `life`: what it does, and the arguments of that."""
    go_to(folder)
    entry, arguments = life
    resolve(entry)(inside, *arguments)
