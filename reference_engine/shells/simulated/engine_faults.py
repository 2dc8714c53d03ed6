"""What rarer faults do to a simulation: messages that come late, deposed coordinators, older checkpoints, lost power.

Each fault kind calls one of these methods while its victim stands at the point, as those in fault_injection.py; what is here is
needed by no other shell, and costs a run that it does not strike next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol

from sinkproof.chaos.faults.fault_target import Killed
from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, MemoryCheckpointStorage
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.notification_delivery import Held
from sinkproof.reference_engine.shells.simulated.fault_injection import ELECT, FaultInjector, Key

ENDING_POLL_MS: Final = 3
ENDING_POLLS_MOST: Final = 400  # a job that was told to end has ended after a few checkpoints, or never will
INJECTED: Final = "injected: the target did not answer"


class Target(Protocol):
    """What the contract lets happen to its target."""

    expires_after: float | None  # seconds: the target's own limit for transactions, or for what it remembers

    def strike(self, hook: str) -> None:
        """Calls the contract's method of this name."""

    def break_services(self, how: str) -> None:
        """See `VirtualShell.break_service`."""

    def come_to_rest(self) -> None:
        """Returns when nothing is on its way any more; every attempt is dead by then."""

    def age(self, seconds: float) -> None:
        """What it holds was written so many seconds earlier than it says."""


class Refusing:
    """A deposed coordinator's way to the checkpoint storage. Whoever is refused there has nothing more to say."""

    def __init__(self, storage: Any, note: Callable[[str, str, Any], None]) -> None:
        self._storage, self._note = storage, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def decide(self, record: CheckpointRecord) -> None:
        self._note(COORDINATOR, "fenced", record.checkpoint_id)
        raise Killed


class EngineFaults(FaultInjector):
    """The parts of a simulation that faults of one's own engine change."""

    job: Job
    generation: int
    ids: int
    finished: bool
    muted: bool
    spy: Callable[[Any, str], None] | None
    storage: Any
    target: Target | None = None
    ahead = 0.0  # seconds by which the clock has jumped
    failing: Key | None = None  # whose call fails each time, until its generation ends
    checkpoint_id_floor = 0  # the greatest id that was ever complete before the job was rewound
    held: Held = ()
    ending = 0  # how often we still look whether the job has ended that was told to
    is_drained = False  # it was told to end with a checkpoint
    checkpoint_id_drained = 0  # restored as if more rows followed, which they do
    deposed: tuple[int, Any] | None = None  # generation and storage of the coordinator in power, while an old one acts

    # -- messages ----------------------------------------------------------------------------------

    def delay_message(self) -> None:
        self.fate = "late"

    def repeat_message(self) -> None:
        self.fate = "repeated"

    # -- the target --------------------------------------------------------------------------------

    def land_later(self) -> None:
        self.stop_actor()
        key, before = self.actor, self.spy

        def die(_: Any, point: str) -> None:
            self.spy, self.muted = before, False
            if self.actor == key:
                self.waking_up = None
                self.watcher.woken(self, self.names[key[0]])  # type: ignore[arg-type]
                self.kill_actor()

        self.spy = die

    def fail_from_here(self) -> NoReturn:
        """The same place is armed again and again; what strikes next has to wait until this has ended."""
        self.failing, fault = self.actor, self.struck[-1]
        self.armed_actor, self.armed_point, self.armed_left = self.actor[0], fault.point, 1
        raise OSError(INJECTED)

    def strike(self) -> None:
        if self.failing is None:
            super().strike()
        elif self.failing == self.actor:
            self.armed_left = 1
            raise OSError(INJECTED)
        else:
            self.failing = None
            self._arm()

    def strike_target(self, hook: str) -> None:
        """Points are off: what the target does to itself is no step of the sink's."""
        assert self.target is not None, "a fault that needs the contract's help was let through"
        muted, self.muted = self.muted, True
        self.target.strike(hook)
        self.muted = muted

    def break_service(self, how: str) -> None:
        """Points are off, as for all that happens to the target."""
        assert self.target is not None, "a fault that needs the contract's help was let through"
        self.target.break_services(how)

    def pass_time(self) -> None:
        assert self.target is not None, "a fault that needs the contract's help was let through"
        assert self.target.expires_after is not None
        self.ahead += 2 * self.target.expires_after

    def seconds(self) -> float:
        """The one true time, which a target sees; attempts may see another."""
        outages = max(0, self.generation - FIRST_GENERATION - self.ids)
        return self.now / 1000 + self.ahead + outages * self.job.outage_seconds

    def outlast(self) -> None:
        """The job was down for a while: what lies in the target is older than when it was left."""
        if self.target is not None:
            self.target.age(self.job.outage_seconds)

    def clock_for(self, key: Key) -> Callable[[], float]:
        """Seconds, as this attempt sees them."""
        wrong = self.job.clock
        if wrong is None:
            return self.seconds
        return lambda: wrong(self.seconds(), *key)

    # -- the job -----------------------------------------------------------------------------------

    def lose_power(self, hook: str) -> NoReturn:
        for key in list(self.subtasks):
            self._bury(key)
        self.strike_target(hook)
        self.kill_job()

    def rewind_job(self, *, to_nothing: bool) -> NoReturn:
        """Ids go on from the greatest that was ever complete: those are promised never to come again."""
        record = self.storage.latest()
        if record is not None:
            self.checkpoint_id_floor = max(self.checkpoint_id_floor, record.checkpoint_id)
            assert isinstance(self.storage, MemoryCheckpointStorage)
            self.storage.rewind(to_nothing=to_nothing)
        self.kill_job()

    def cancel_job(self) -> None:
        self._end_and_go_on("cancel")

    def drain_job(self) -> None:
        self._end_and_go_on("stop_with_checkpoint")

    def _end_and_go_on(self, how: str) -> None:
        self.ending, self.is_drained = ENDING_POLLS_MOST, how == "stop_with_checkpoint"
        self.post(0, (0, self.generation), (how, None, None))
        self.post(ENDING_POLL_MS, (0, 0), ELECT)

    def go_on_if_ended(self) -> None:
        """Whoever is to elect a coordinator looks whether the job has ended by now; if so, it is started again."""
        self.ending -= 1
        if not (self.finished and not self.subtasks):
            self.post(ENDING_POLL_MS, (0, 0), ELECT)
            return
        self.ending, self.finished = 0, False
        if self.is_drained:
            self.checkpoint_id_drained = self.storage.latest().checkpoint_id
        else:
            self.checkpoint_id_last = self.checkpoint_id_floor  # the counter was its own

    def restorable(self) -> CheckpointRecord | None:
        """What the next generation starts from."""
        record: CheckpointRecord | None = self.storage.latest()
        if record is not None and record.checkpoint_id == self.checkpoint_id_drained:
            return record._replace(final=False)
        return record

    # -- two coordinators --------------------------------------------------------------------------

    def depose(self) -> None:
        """What it tells from here on bears its own generation, and the storage refuses its decisions."""
        key, generation, wake = self.actor, self.generation, int(self.now) + self.latency.asleep
        handling = self.handling
        self.coordinator, self.sleepers[key] = None, []
        self.post(self.latency.detect, (0, 0), ELECT)
        outer, self.until = self.until, wake
        sys.call_tracing(self.run, ())  # everybody else goes on, on top of its stack
        self.until, self.now, self.handling = outer, max(self.now, wake), handling
        if self.sleepers.pop(key, None) is None or self.over:
            raise Killed  # the whole job died meanwhile
        self.actor = key
        if self.generation != generation:
            self.deposed = self.generation, self.storage
            self.generation, self.storage = generation, Refusing(self.storage, self.note)
        self.note(COORDINATOR, "goes on", None)

    def step_down(self) -> None:
        """The deposed coordinator has done what it was stopped in."""
        if self.deposed is not None:
            (self.generation, self.storage), self.deposed = self.deposed, None
