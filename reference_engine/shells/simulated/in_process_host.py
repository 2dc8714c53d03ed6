"""Attempts of sinks in the engine's own process: the fastest host, and one that can never finalise the dead."""

from __future__ import annotations

import gc
from collections.abc import Callable

from sinkproof.sink_adapters.protocol import Sink


class InProcessHost:
    """Keeps the dead until the run is judged: a garbage-collected file object would flush what SIGKILL loses.

    `keeps_dead=False`: for sinks that nobody kills in here. What else ends an attempt ends its process elsewhere, which
    gives back locks and connections. Here the garbage collector does: a connection to sqlite is part of a cycle.
    """

    dead_unwind = True

    def __init__(self, make_sink: Callable[[], Sink], *, keeps_dead: bool = True) -> None:
        self.make_sink, self.keeps_dead = make_sink, keeps_dead
        self.dead: list[Sink] = []
        self.let_go = False

    def spawn(self, actor: str, subtask: int, generation: int) -> Sink:
        self.reap()
        return self.make_sink()

    def kill(self, sink: Sink) -> None:
        self.let_go = True
        if self.keeps_dead:
            self.dead.append(sink)

    def retire(self, sink: Sink) -> None:
        self.kill(sink)

    vacate = retire  # all attempts are in this process

    def close(self) -> None:
        """The run is judged: nobody is kept any more."""
        self.dead.clear()

    def reap(self) -> None:
        if self.let_go and not self.keeps_dead:
            gc.collect()
        self.let_go = False
