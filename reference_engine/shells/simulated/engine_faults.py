"""Faults that only a simulated engine can suffer: late writes, deposed coordinators, older checkpoints, lost power.

A run without such a fault pays next to nothing for them. No other shell needs what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from errno import EIO
from typing import Any, Final, NoReturn

from sinkproof.chaos.faults.fault_target import Killed
from sinkproof.chaos.schedule import COORDINATOR
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.shells.simulated.actor_faults import ActorFaults
from sinkproof.reference_engine.shells.simulated.faulted_job import ELECT, FaultableTarget, FaultedJob, Key
from sinkproof.sink_adapters.protocol import Fenced

ENDING_POLL_MS: Final = 3
ENDING_POLLS_MOST: Final = 400  # a job that is to end ends after a few checkpoints, or never
INJECTED: Final = "injected: the target did not answer"


class DeposedStorage:
    """A deposed coordinator's access to the checkpoint storage. What fences it, ends it: the storage itself, if it can.

    That in memory has one owner, so its first decision is refused here.
    """

    def __init__(self, storage: Any, note: Callable[[str, str, Any], None]) -> None:
        self._storage, self._note = storage, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def decide(self, record: CheckpointRecord) -> None:
        if isinstance(self._storage, MemoryCheckpointStorage):
            self._end(record.checkpoint_id)
        self._try(record.checkpoint_id, lambda: self._storage.decide(record))

    def discard(self, checkpoint_id: int) -> None:
        self._try(checkpoint_id, lambda: self._storage.discard(checkpoint_id))

    def _try(self, checkpoint_id: int, deed: Callable[[], None]) -> None:
        try:
            deed()
        except Fenced:
            self._end(checkpoint_id)

    def _end(self, checkpoint_id: int) -> NoReturn:
        self._note(COORDINATOR, "fenced", checkpoint_id)
        raise Killed


class EngineFaults:
    """A `VirtualShell` (chaos/faults/fault_target.py): what fault kinds call. Those of single actors are passed on."""

    def __init__(self, job: FaultedJob, actors: ActorFaults) -> None:
        self.job, self.actors = job, actors
        self.kill_actor, self.kill_job = actors.kill_actor, actors.kill_job
        self.kill_worker, self.kill_executor = actors.kill_worker, actors.kill_executor
        self.stop_actor, self.pause_actor = actors.stop_actor, actors.pause_actor
        self.hang_actor = actors.hang_actor
        self.lose_message, self.delay_message = actors.lose_message, actors.delay_message
        self.repeat_message, self.decline_vote = actors.repeat_message, actors.decline_vote
        self.failing: Key | None = None  # an attempt with a call that fails each time, until its generation ends
        self.polls_left = 0  # of a job that was cancelled or drained: how often its end is still awaited
        self.is_drained = False
        self.checkpoint_id_drained = 0  # restored as if more rows followed, which they do
        self.deposed: tuple[int, Any] | None = (
            None  # the new coordinator's generation and storage, while an old one acts
        )

    # -- the process of an attempt ------------------------------------------------------------------

    def terminate_actor(self, *, calls: int) -> None:
        """Between two calls; inside them the process does it to itself."""
        if not self.job.host.terminate(self.job.sinks[self.job.actor], calls=calls):
            self.actors.kill_actor()

    # -- the target --------------------------------------------------------------------------------

    def land_later(self) -> None:
        self.actors.stop_actor()
        job, key, before = self.job, self.job.actor, self.job.on_point

        def die_at_next_point(_: Any, point: str) -> None:
            job.on_point, job.points_off = before, False
            if job.actor == key:
                self.actors.end_as_zombie()
                self.actors.kill_actor()

        job.on_point = die_at_next_point

    def fail_from_here(self) -> NoReturn:
        """The fault injector arms the same point again while `failing` acts."""
        self.failing = self.job.actor
        raise OSError(EIO, INJECTED)

    def strike_target(self, hook: str) -> None:
        """Points are off: what the target does to itself is no step of the sink."""
        target, points_off = self._target(), self.job.points_off
        self.job.points_off = True
        target.call_hook(hook)
        self.job.points_off = points_off

    def break_service(self, how: str) -> None:
        self._target().break_services(how)

    def move_clocks(self, seconds: float) -> None:
        self.job.attempt_clock_offset += seconds

    def pass_time(self) -> None:
        expires_after = self._target().expires_after
        assert expires_after is not None
        self.job.clock_offset += 2 * expires_after

    def _target(self) -> FaultableTarget:
        assert self.job.target is not None, "a fault that needs the contract's help was let through"
        return self.job.target

    # -- the job -----------------------------------------------------------------------------------

    def lose_power(self, hook: str) -> NoReturn:
        for key in list(self.job.subtasks):
            self.job.discard(key)
        self.strike_target(hook)
        self.actors.kill_job()

    def rewind_job(self, *, to_nothing: bool) -> NoReturn:
        """Ids go on from the greatest that was ever complete: those are promised never to come again."""
        storage, record = self.job.storage, self.job.storage.latest()
        if record is not None:
            self.actors.checkpoint_id_floor = max(self.actors.checkpoint_id_floor, record.checkpoint_id)
            assert isinstance(storage, MemoryCheckpointStorage)
            storage.rewind(to_nothing=to_nothing)
        self.actors.kill_job()

    def cancel_job(self) -> None:
        self._end_and_start_again("cancel")

    def drain_job(self) -> None:
        self._end_and_start_again("stop_with_checkpoint")

    def _end_and_start_again(self, request: str) -> None:
        self.polls_left, self.is_drained = ENDING_POLLS_MOST, request == "stop_with_checkpoint"
        self.job.post(0, (0, self.job.generation), (request, None, None))
        self.job.post(ENDING_POLL_MS, (0, 0), ELECT)

    def poll_ending(self) -> None:
        """Called whenever a coordinator is to be elected: if the job has ended by now, it may start again."""
        job = self.job
        self.polls_left -= 1
        if not (job.finished and not job.subtasks):
            job.post(ENDING_POLL_MS, (0, 0), ELECT)
            return
        self.polls_left, job.finished = 0, False
        if self.is_drained:
            self.checkpoint_id_drained = job.storage.latest().checkpoint_id
        else:
            job.checkpoint_id_last = self.actors.checkpoint_id_floor  # the counter was the ended coordinator's

    def restorable(self) -> CheckpointRecord | None:
        """The checkpoint that the next generation starts from."""
        record: CheckpointRecord | None = self.job.storage.latest()
        if record is not None and record.checkpoint_id == self.checkpoint_id_drained:
            return record._replace(final=False)
        return record

    # -- two coordinators --------------------------------------------------------------------------

    def depose(self) -> None:
        """The old coordinator's messages bear its own generation, and the storage refuses its decisions."""
        job, key, generation = self.job, self.job.actor, self.job.generation
        storage = copy(job.storage) if not isinstance(job.storage, MemoryCheckpointStorage) else job.storage
        job.coordinator = None
        job.post(job.latency.detect, (0, 0), ELECT)
        self.actors.run_others(job.latency.suspended)
        job.actor = key
        if job.generation != generation:
            self.deposed = job.generation, job.storage
            job.generation, job.storage = generation, DeposedStorage(storage, job.note)
        job.note(COORDINATOR, "goes on", None)

    def step_down(self) -> None:
        """The deposed coordinator has handled the event in which it was suspended."""
        if self.deposed is not None:
            (self.job.generation, self.job.storage), self.deposed = self.deposed, None
