"""How long things take in virtual time: unequal on purpose, so that alignment buffers and checkpoints overlap."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from sinkproof.reference_engine.job_graph import Plan


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds of virtual time; channels are first in, first out because each has one latency."""

    channel: dict[tuple[int, int], int]
    pace: dict[int, int]  # between two batches of a source
    upload: dict[int, int]  # until a snapshot is persisted
    decide: int = 1  # until a decision is durable
    detect: int = 4  # until a death is noticed
    cancel: int = 3  # until an old attempt hears that it is cancelled
    asleep: int = 24  # how long a stopped attempt sleeps


@dataclass(frozen=True, slots=True)
class Timing:
    """The fixed latencies of seed 0; another seed draws others within the same bounds.

    `pace`: added between two batches of a source.
    `asleep`: how long a stopped attempt sleeps. 24 is longer than detection and the restart of the others.
    """

    pace: int = 0
    asleep: int = 24

    def latencies(self, plan: Plan, *, seed: int) -> Latencies:
        random = Random(seed)
        channels, paces, uploads = {}, {}, {}
        for subtask in plan.subtasks:
            for sender in subtask.inputs:
                channels[sender, subtask.id] = random.randint(1, 5) if seed else 1 + (3 * sender + 2 * subtask.id) % 5
            paces[subtask.id] = self.pace + (random.randint(2, 5) if seed else 2 + subtask.index % 2)
            uploads[subtask.id] = random.randint(1, 9) if seed else 1 + 6 * (subtask.index % 2) * subtask.sink
        return Latencies(channels, paces, uploads, asleep=self.asleep)
