"""An attempt that receives rows while it may not process them, so that urgent barriers can overtake them.

Rows go into bounded buffers (buffered_input.py), so that an urgent barrier is found at once. The pure core decides on
credits; every batch that is sent has room at the other end, which reads it at any time.
"""

from __future__ import annotations

import select
import socket
from typing import Any, Final

from sinkproof.reference_engine.dataflow.columns import decode
from sinkproof.reference_engine.dataflow.flow_control import Buffers, Item
from sinkproof.reference_engine.dataflow.subtask import Effect
from sinkproof.reference_engine.shells.carry_out_effects import BUFFERED_ACTIONS, Action, Key
from sinkproof.reference_engine.shells.spark.attempt_process import SparkAttempt, StartOrder
from sinkproof.reference_engine.shells.spark.channels import CREDITS, ROWS, InChannel, OutChannel, event_of
from sinkproof.reference_engine.shells.spark.deployment import Deployment, SparkRun

BUFFERS: Final = Buffers(exclusive=CREDITS, floating=0, queued=1)


class BufferedAttempt(SparkAttempt):
    buffers = BUFFERS

    def _actions(self) -> dict[str, Action]:
        return {**BUFFERED_ACTIONS, "transmit": self._transmit, "grant": self._grant, "upload": self._upload}

    def _transmit(self, _: Any, key: Key, effect: Effect) -> None:
        _, to, item = effect
        self._put(to, item.kind, item.payload, backlog=item.backlog)

    def _grant(self, _: Any, key: Key, effect: Effect) -> None:
        _, to, count = effect
        next(channel for channel in self.inputs.values() if channel.sender == to).give_credits(count)

    def _credited(self, channel: OutChannel, count: int) -> None:
        to = next(actor for actor, one in self.outputs.items() if one is channel)
        if count:
            self._handle(("granted", to, count))

    def _take(self, channel: InChannel, code: int, frame: tuple[int, bytearray | memoryview]) -> None:
        item = Item("rows", decode(frame[1]), frame[0]) if code == ROWS else Item(*event_of(code, *frame))
        self._handle(("arrive", channel.sender, item))

    def _may_send(self) -> bool:
        return True  # the subtask itself stalls when its queues are full

    def _read_what_may_be_processed(self) -> None:
        """Every channel: credits bound what is sent."""
        for descriptor in self.inputs:
            self._watch(descriptor, select.EPOLLIN)


def attempt_for(
    run: SparkRun, deployment: Deployment, order: StartOrder, *, listening: socket.socket | None
) -> SparkAttempt:
    kind = BufferedAttempt if deployment.job.configuration.unaligned else SparkAttempt
    return kind(run, deployment, order, listening=listening)
