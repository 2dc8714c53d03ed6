"""How long each step takes in virtual time: unequal on purpose, so that alignment buffers and checkpoints overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION
from sinkproof.reference_engine.dataflow.job_graph import Plan

Clock = Callable[[float, int, int], float]  # (true seconds, actor id, generation) -> seconds as that attempt sees them
BEGINNING: Final = 1_701_390_600.0  # half an hour into a month: the first restart goes back to the one before
AHEAD: Final = 2.0  # seconds that each actor's clock is ahead of the one before
BACK: Final = 3600.0  # seconds that the clock goes back with each restart: another host, another time zone


def wrong_clock(seconds: float, actor: int, generation: int) -> float:
    """One tick a second, so that most are equal; ahead on some hosts; behind where it was, after every restart."""
    return BEGINNING + seconds // 1 + AHEAD * actor - BACK * (generation + 1 - FIRST_GENERATION)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds of virtual time; channels are first in, first out because each has one latency."""

    channel: dict[tuple[int, int], int]
    pace: dict[int, int]  # between two batches of a source
    upload: dict[int, int]  # until a snapshot is persisted
    decide: int = 1  # until a decision is durable
    detect: int = 4  # until the failure detector notices a death
    cancel: int = 3  # until an old attempt receives its cancellation
    suspended: int = 24  # how long a stopped attempt is suspended
    settle: int = 1  # how many times as long as usual until a sink is to settle what is in doubt
    paused: int = 16  # how long an attempt is paused: the others are notified of a checkpoint within 10
    # (step, subtask) -> subtask in the place of which it acts
    turn: dict[tuple[str, int], int] = field(default_factory=dict)

    def turned(self, steps: Iterable[str], sinks: Sequence[int]) -> Latencies:
        """With the last of the sinks first: notified first, opened first, or reached first by the barriers."""
        places = dict(zip(sinks, reversed(sinks), strict=True))
        turn = {(step, sink): places[sink] for step in steps for sink in sinks}
        if "snapshot" not in steps:
            return replace(self, turn=turn)
        channel = {(sender, to): self.channel[sender, places.get(to, to)] for sender, to in self.channel}
        upload = {subtask: self.upload[places.get(subtask, subtask)] for subtask in self.upload}
        return replace(self, turn=turn, channel=channel, upload=upload)


@dataclass(frozen=True, slots=True)
class Timing:
    """The fixed latencies of seed 0; another seed draws others within the same bounds.

    `pace`: added between two batches of a source.
    `suspended`: how long a stopped attempt is suspended. 24 is longer than detection and the restart of the others.
    `detect`: how long the failure detector takes to notice an attempt that is dead or does not answer.
    `stretch`: by how much the channels are slower, and their differences greater.
    `settle`: how many times as long as usual it takes until what is in doubt is settled.
    """

    pace: int = 0
    suspended: int = 24
    detect: int = 4
    stretch: int = 1
    settle: int = 1

    def latencies(self, plan: Plan, *, seed: int) -> Latencies:
        random = Random(seed)
        channels, paces, uploads = {}, {}, {}
        for subtask in plan.subtasks:
            for sender in subtask.inputs:
                latency = random.randint(1, 5) if seed else 1 + (3 * sender + 2 * subtask.id) % 5
                channels[sender, subtask.id] = latency * self.stretch
            paces[subtask.id] = self.pace + (random.randint(2, 5) if seed else 2 + subtask.index % 2)
            uploads[subtask.id] = random.randint(1, 9) if seed else 1 + 6 * (subtask.index % 2) * subtask.sink
        return Latencies(*(channels, paces, uploads), suspended=self.suspended, detect=self.detect, settle=self.settle)
