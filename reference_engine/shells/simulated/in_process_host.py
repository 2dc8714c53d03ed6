"""Runs attempts of sinks in the engine's own process: the fastest host, which never finalises dead attempts."""

from __future__ import annotations

import gc
from collections.abc import Callable

from sinkproof.sink_adapters.protocol import Sink


class InProcessHost:
    """Keeps dead attempts until the run is judged: a garbage-collected file object would flush what SIGKILL loses.

    `keeps_dead=False`: for sinks that are not killed in this process. In the process shell, locks and connections end
    with the process. Here the garbage collector releases them: a connection to sqlite is part of a cycle.
    """

    dead_unwind = True
    struck_line = ""  # the stack shows it

    def __init__(self, make_sink: Callable[[], Sink], *, keeps_dead: bool = True) -> None:
        self.make_sink, self.keeps_dead = make_sink, keeps_dead
        self.dead: list[Sink] = []
        self.has_unreleased = False

    def spawn(self, actor: str, subtask: int, generation: int) -> Sink:
        self.reap()
        return self.make_sink()

    def kill(self, sink: Sink) -> None:
        self.has_unreleased = True
        if self.keeps_dead:
            self.dead.append(sink)

    def terminate(self, sink: Sink, *, calls: int) -> bool:
        """A signal would reach the engine itself."""
        return False

    def retire(self, sink: Sink) -> None:
        self.kill(sink)

    vacate = retire  # all attempts are in this process

    def close(self) -> None:
        """The run is judged: dead attempts are released."""
        self.dead.clear()

    def reap(self) -> None:
        if self.has_unreleased and not self.keeps_dead:
            gc.collect()
        self.has_unreleased = False
