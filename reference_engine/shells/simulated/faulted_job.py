"""What the faults of a simulation may read and change of it: nothing else of `Simulation` is theirs."""

from __future__ import annotations

from typing import Any, Final, Protocol

from sinkproof.reference_engine.checkpointing.coordinator import Coordinator
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.reference_engine.shells.job import Job, RunningJob, Watcher
from sinkproof.sink_adapters.protocol import Sink

Key = tuple[int, int]  # (actor id, generation)
Event = tuple[str, Any, Any]  # kind, a, b
ELECT: Final[Event] = ("elect", None, None)


class FaultableTarget(Protocol):
    """What the contract allows to happen to its target."""

    expires_after: float | None  # seconds: the target's own limit for transactions, or for what it remembers

    def call_hook(self, hook: str) -> None:
        """Calls the contract's method of this name."""

    def break_services(self, how: str) -> None:
        """See `VirtualShell.break_service`."""

    def age(self, seconds: float) -> None:
        """Makes everything that the target holds older by so many seconds."""

    def come_to_rest(self) -> None:
        """Returns when no request is on its way any more; every attempt is dead by then."""


class FaultedJob(RunningJob, Protocol):
    """A simulation as its faults see it."""

    job: Job
    watcher: Watcher
    target: FaultableTarget | None
    generation: int
    until: float  # ms of virtual time: `run` returns there
    handling: int  # number of the event that is being handled
    actor: Key  # the attempt or coordinator that is acting
    coordinator: Coordinator | None
    checkpoint_id_last: int
    subtasks: dict[Key, Subtask]
    sinks: dict[Key, Sink]
    trace: list[tuple[int, str]]
    message_fault: str
    clock_offset: float
    attempt_clock_offset: float
    over: bool

    def post(self, delay: float, key: Key, event: Event) -> None: ...

    def note(self, actor: str, what: str, detail: Any) -> None: ...

    def discard(self, key: Key) -> None:
        """The attempt dies: nothing of it runs any more."""

    def zombie_resuming(self, key: Key) -> None:
        """A suspended attempt that was replaced is about to go on."""

    def start(self) -> None: ...

    def end(self) -> None: ...
