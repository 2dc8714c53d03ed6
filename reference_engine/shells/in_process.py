"""Attempts of sinks in the engine's own process: the fastest host, and one that can never finalise the dead."""

from __future__ import annotations

from collections.abc import Callable

from sinkproof.sink_adapters.protocol import Sink


class InProcessHost:
    """Keeps the dead until the run is judged: a garbage-collected file object would flush what SIGKILL loses."""

    dead_unwind = True

    def __init__(self, make_sink: Callable[[], Sink]) -> None:
        self.make_sink = make_sink
        self.dead: list[Sink] = []

    def spawn(self, actor: str, subtask: int, generation: int) -> Sink:
        return self.make_sink()

    def kill(self, sink: Sink) -> None:
        self.dead.append(sink)

    def retire(self, sink: Sink) -> None:
        self.dead.append(sink)
