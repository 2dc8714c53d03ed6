"""An attempt that reads on while it may not process: for unaligned checkpoints, whose barriers overtake what has come.

What comes goes into bounded buffers (buffered_input.py), so that an urgent barrier is found at once; credits are the pure
core's affair here, and whatever is sent has room at the other end, which reads it whatever it does meanwhile.
"""

from __future__ import annotations

import select
import socket
from typing import Any, Final

from sinkproof.reference_engine.dataflow.columns import decode, encode
from sinkproof.reference_engine.dataflow.flow_control import Buffers, Item
from sinkproof.reference_engine.dataflow.subtask import Effect
from sinkproof.reference_engine.shells.effects import BUFFERED_ACTIONS, Key
from sinkproof.reference_engine.shells.spark.attempt_process import Attempt, Order
from sinkproof.reference_engine.shells.spark.channels import (
    CREDITS,
    ROWS,
    InChannel,
    OutChannel,
    event_of,
    frame_of,
)
from sinkproof.reference_engine.shells.spark.deployment import Deployment, Run

BUFFERS: Final = Buffers(exclusive=CREDITS, floating=0, queued=1)


class BufferedAttempt(Attempt):
    buffers = BUFFERS

    def __init__(self, run: Run, deployment: Deployment, order: Order, *, listening: socket.socket | None) -> None:
        super().__init__(run, deployment, order, listening=listening)
        own = {"transmit": self._transmit, "grant": self._grant, "upload": self._upload}
        self.actions = {**BUFFERED_ACTIONS, **own}

    def _transmit(self, _: Any, key: Key, effect: Effect) -> None:
        """The announced backlog travels where barriers have their checkpoint."""
        _, to, item = effect
        channel = self.outputs[to]
        if item.kind == "rows":
            channel.send(ROWS, data=encode(item.payload), checkpoint_id=item.backlog)
        else:
            code, number, data = frame_of(item.kind, item.payload)
            channel.send(code, data=data, checkpoint_id=number)
        self._watch(channel.fileno(), self._wanted_of(channel))

    def _grant(self, _: Any, key: Key, effect: Effect) -> None:
        _, to, count = effect
        next(channel for channel in self.inputs.values() if channel.sender == to).give_credits(count)

    def _credited(self, channel: OutChannel, count: int) -> None:
        to = next(actor for actor, one in self.outputs.items() if one is channel)
        if count:
            self._handle(("granted", to, count))

    def _take(self, channel: InChannel, code: int, frame: tuple[int, bytearray]) -> None:
        item = Item("rows", decode(frame[1]), frame[0]) if code == ROWS else Item(*event_of(code, *frame))
        self._handle(("arrive", channel.sender, item))

    def _may_send(self) -> bool:
        return True  # the subtask knows, and stalls

    def _read_what_may_be_processed(self) -> None:
        """All of it: nobody sends more than there is room for."""
        for descriptor in self.inputs:
            self._watch(descriptor, select.EPOLLIN)


def attempt_for(run: Run, deployment: Deployment, order: Order, *, listening: socket.socket | None) -> Attempt:
    kind = BufferedAttempt if deployment.job.configuration.unaligned else Attempt
    return kind(run, deployment, order, listening=listening)
