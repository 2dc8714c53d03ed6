"""Drives a sink without an engine, in a process of its own, so that the speed and memory measured are the sink's.

A checkpoint is complete as soon as the sink has taken its snapshot.
"""

from __future__ import annotations

import pickle
import select
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.sink_adapters.protocol import Batch, Context, Row, TransactionLost
from sinkproof.sink_adapters.request_counts import SENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

BATCH_ROWS: Final = 100
VALUE: Final = "a row as long as those that people log: user, action, and object, and when it was so. {:010}"
ROW_BYTES: Final = len("key-000") + len(VALUE.format(0)) + 3 * 8  # two texts and three numbers
BULK_ROWS: Final = 1_000  # of a checkpoint
BULK_CHECKPOINTS_LEAST: Final = 3
HELD_ROWS: Final = 10_000  # of one checkpoint: fewer would fit into pages that the allocator holds already
STREAM_ROWS: Final = 5  # of a batch
STREAM_BATCHES: Final = 20  # of a checkpoint
SETTLED_SECONDS: Final = 10.0
FILE_POINT: Final = "file."
LOST: Final = "lost"
TIMEOUT: Final = "transaction_timeout"  # of targets that have one, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTask:
    """What a driver process does. `way`: a key of WAYS."""

    way: str
    locator: str
    scratch: Scratch
    seconds: float = 0.0  # of a bulk; of a stream: between two checkpoints
    checkpoints: int = 0  # of a stream
    impatience_seconds: float = 0.0  # the time limit of the target, where it has one; 0: its own
    restored: bytes | None = None  # for a second attempt: the snapshot of the first one


def drive(inside: Inside, task: DriverTask) -> None:
    """The entry of the process. It sends what it has measured."""
    driver = SinkDriver(inside, task)
    driver.send(WAYS[task.way](driver, task))


class SinkDriver:
    """One attempt of one sink, with counts of what it sends."""

    def __init__(self, inside: Inside, task: DriverTask) -> None:
        self.inside, self.points = inside, 0
        self.sink = load(task.locator).sink(replace(task.scratch, clock=now))
        self.expires = getattr(self.sink.target, TIMEOUT, None) is not None
        if self.expires and task.impatience_seconds:
            setattr(self.sink.target, TIMEOUT, task.impatience_seconds)
        self.offset, self.checkpoint_id, self.state_bytes, self.state_bytes_most = 0, 0, 0, 0
        self.generation = 1 if task.restored is None else 2
        self.restored = task.restored

    def open(self) -> None:
        """Connects, with the target's settings of now."""
        again = self.restored is not None
        context = Context(
            generation=self.generation,
            clock=now,
            reach=self._reach,
            checkpoint_id_restored=1 if again else None,
            parallelism_restored=int(again),
            restored=[(0, self.restored)] if self.restored is not None else (),
            subtasks_restored=[0] if again else (),
        )
        self._settled(self.sink.open(context))

    def _reach(self, point: str) -> None:
        self.points += point.startswith(FILE_POINT)

    def write(self, count: int) -> list[int]:
        """Returns the offsets. Rows are made while they are written, so that only the sink holds them in memory."""
        offsets = range(self.offset, self.offset + count)
        self.offset += count
        self.sink.write(
            Batch(Row(0, offset, f"key-{offset % 100:03}", VALUE.format(offset), offset) for offset in offsets)
        )
        return list(offsets)

    def snapshot(self) -> bytes:
        self.checkpoint_id += 1
        state: bytes = self.sink.snapshot(self.checkpoint_id)
        self.state_bytes += len(state)
        self.state_bytes_most = max(self.state_bytes_most, len(state))
        return state

    def complete(self) -> None:
        self._settled(self.sink.notify_complete(self.checkpoint_id))

    def _settled(self, unsettled: Iterable[int] | None) -> None:
        deadline = Deadline(SETTLED_SECONDS)
        while left := list(unsettled or ()):
            if deadline.over:
                raise TimeoutError(f"checkpoints {left} are not settled within {SETTLED_SECONDS:.0f} s")
            unsettled = self.sink.settle(now())

    def checkpoint(self, rows: int) -> None:
        for _ in range(rows // BATCH_ROWS):
            self.write(BATCH_ROWS)
        self.snapshot()
        self.complete()

    def send(self, what: Any) -> None:
        self.inside.send(pickle.dumps(what))

    def report_and_wait(self, what: Any) -> None:
        """Sends a step to the parent, and waits until the parent has read the target."""
        self.send(what)
        self.inside.receive()

    def traffic(self) -> tuple[int, int]:
        """(requests, bytes) so far: effects on files, or what the clients counted."""
        if self.points:
            return self.points, _written_bytes()
        return SENT.requests, SENT.sent_bytes


# -- what is measured ------------------------------------------------------------------------------


def steps(driver: SinkDriver, task: DriverTask) -> None:
    """One row; the parent reads the target after each step."""
    driver.open()
    driver.write(1)
    driver.report_and_wait("write")
    driver.snapshot()
    driver.report_and_wait("snapshot")
    driver.complete()
    driver.report_and_wait("complete")


def bulk(driver: SinkDriver, task: DriverTask) -> dict[str, Any]:
    """At full speed. The first checkpoint, which connects and prepares, does not count."""
    driver.open()
    driver.checkpoint(BULK_ROWS)
    driver.report_and_wait("warm")
    requests, sent = driver.traffic()
    rows, state = driver.offset, driver.state_bytes
    moments = [now()]
    while len(moments) <= BULK_CHECKPOINTS_LEAST or moments[-1] - moments[0] < task.seconds:
        driver.checkpoint(BULK_ROWS)
        moments.append(now())
    rows = driver.offset - rows
    requests_then, sent_then = driver.traffic()
    return {
        "rows": rows,
        "rows_per_second": BULK_ROWS / median(after - before for before, after in pairwise(moments)),
        "requests": requests_then - requests,
        "sent_bytes": sent_then - sent,
        "state_bytes": driver.state_bytes - state,
        "state_bytes_most": driver.state_bytes_most,
    }


def held(driver: SinkDriver, task: DriverTask) -> int:
    """Peak of additional memory, in bytes, from the first row of a large checkpoint to its snapshot."""
    driver.open()
    driver.checkpoint(BATCH_ROWS)
    before = _memory_bytes("VmRSS")
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    for _ in range(HELD_ROWS // BATCH_ROWS):
        driver.write(BATCH_ROWS)
    driver.snapshot()
    return max(0, _memory_bytes("VmHWM") - before)


def stream(driver: SinkDriver, task: DriverTask) -> list[tuple[float, list[int]]]:
    """Small batches, evenly spread over time, and when the sink was given each. The parent reads meanwhile."""
    driver.open()
    driver.checkpoint(BATCH_ROWS)
    driver.report_and_wait("warm")
    written = []
    due = now()
    for _ in range(task.checkpoints):
        for _ in range(STREAM_BATCHES):
            due += task.seconds / STREAM_BATCHES
            select.select([], [], [], max(0.0, due - now()))  # until the next batch is due
            written.append((now(), driver.write(STREAM_ROWS)))
        driver.snapshot()
        driver.complete()
    return written


def vote(driver: SinkDriver, task: DriverTask) -> tuple[bytes, bool]:
    """(The snapshot of a checkpoint that completes after this attempt's death, whether its transaction can expire.)"""
    driver.open()
    driver.write(BATCH_ROWS)
    return driver.snapshot(), driver.expires


def recover(driver: SinkDriver, task: DriverTask) -> str:
    """The next attempt: LOST if its sink raises TransactionLost, else ""."""
    try:
        driver.open()
    except TransactionLost:
        return LOST
    return ""


WAYS: Final[dict[str, Callable[[SinkDriver, DriverTask], Any]]] = {
    "steps": steps,
    "bulk": bulk,
    "held": held,
    "stream": stream,
    "vote": vote,
    "recover": recover,
}


def _written_bytes() -> int:
    """By this process, to files: sockets are not counted there."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar:")).split()[1])


def _memory_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) << 10
