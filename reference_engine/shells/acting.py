"""Carrying out effects: what the pure core wants, done to sinks, channels, storage, with a point around each step."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappush
from typing import TYPE_CHECKING, Any

from sinkproof.reference_engine.coordinator import CheckpointRecord
from sinkproof.reference_engine.subtask import Effect, Subtask
from sinkproof.sink_adapters.protocol import Batch, Context

if TYPE_CHECKING:
    from sinkproof.reference_engine.shells.simulated import Key, Simulation

JOB_ID = "job"


class Acting:
    """The half of the simulated shell that acts; simulated.py holds the half that delivers and breaks."""

    def act(self: Simulation, subtask: Subtask, key: Key, effects: Iterable[Effect]) -> None:
        actions = ACTIONS
        for effect in effects:
            actions[effect[0]](self, subtask, key, effect)

    # -- data ---------------------------------------------------------------------------------------------------------

    def _do_send(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        _, to, kind, payload = effect
        self.sequence += 1
        at = self.now + self.latency.channel[key[0], to]
        heappush(self.queue, (at, self.sequence, to, key[1], kind, key[0], payload))

    def _do_write(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        batch: Batch = effect[1]
        self.reach("write.before")
        self.sinks[key].write(batch)
        self.reach("write.after")

    def _do_timer(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        delay = self.latency.pace[key[0]] if effect[1] is None else effect[1]
        self.post(delay, key, (effect[2], None, None))

    def _do_drain(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        for event in effect[1]:
            kind, a, b = event
            self.act(subtask, key, subtask.on(kind, a, b))

    def _do_report(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        self.post(1, (0, key[1]), (effect[1], key[0], effect[2]))

    # -- the sink's life -----------------------------------------------------------------------------------------------

    def _do_open(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        restored, plan = self.restored.pop(key), subtask.plan
        context = Context(
            job_id=JOB_ID,
            sink_id=plan.vertex,
            subtask=plan.index,
            parallelism=plan.parallelism,
            parallelism_restored=restored.parallelism,
            generation=key[1],
            checkpoint_id_restored=restored.checkpoint_id,
            restored=restored.sinks,
            subtasks_restored=restored.sinks_known,
            clock=lambda: self.now / 1000,
            deadline=(self.now + self.job.configuration.settle_deadline) / 1000,
            random=self.random_for(key),
            reach=self.reach,
        )
        self.reach("open.before")
        self.sinks[key].open(context)
        self.reach("open.after")

    def _do_end_of_input(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        self._call("end_of_input", key)

    def _call(self: Simulation, name: str, key: Key, *arguments: Any) -> Any:
        """One of the calls that a sink may lack."""
        self.reach(name + ".before")
        call = getattr(self.sinks[key], name, None)
        answer = call(*arguments) if call is not None else None
        self.reach(name + ".after")
        return answer

    # -- checkpoints -------------------------------------------------------------------------------

    def _do_capture(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        _, checkpoint_id, states = effect
        self.reach("snapshot.before")
        state = self.sinks[key].snapshot(checkpoint_id)
        if not isinstance(state, (bytes, bytearray)):
            raise TypeError(f"snapshot({checkpoint_id}) returned {type(state).__name__}, not bytes")
        states["sink"] = bytes(state)
        self.reach("snapshot.after")
        self.act(subtask, key, subtask.captured(checkpoint_id, states))

    def _do_upload(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        _, checkpoint_id, states = effect
        kept = self.storage.store(checkpoint_id, subtask.plan.name, states)
        self.post(self.latency.upload[key[0]], key, ("persisted", checkpoint_id, kept))

    def _do_cancel_upload(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        self.note(subtask.plan.name, "upload cancelled", effect[1])

    def _do_acknowledge(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        _, checkpoint_id, states = effect
        self.reach("acknowledge.before")
        kind, self.fate = "declined" if self.fate == "declined" else "acknowledged", ""
        self.note(subtask.plan.name, kind, checkpoint_id)
        self.post(1, (0, key[1]), (kind, checkpoint_id, (subtask.plan.name, states)))
        self.reach("acknowledge.after")

    def _do_notify(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        unsettled = self._call("notify_complete", key, effect[1])
        self.act(subtask, key, subtask.settled(list(unsettled or ()), None))

    def _do_notify_aborted(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        self._call("notify_aborted", key, effect[1])

    def _do_settle(self: Simulation, subtask: Subtask, key: Key, effect: Effect) -> None:
        unsettled = self._call("settle", key, self.now / 1000)
        self.act(subtask, key, subtask.settled(list(unsettled or ()), None))

    # -- the coordinator ---------------------------------------------------------------------------

    def act_for_coordinator(self: Simulation, effects: Iterable[Effect]) -> None:
        for effect in effects:
            getattr(self, "_coordinator_" + effect[0])(effect)

    def _coordinator_tell(self: Simulation, effect: Effect) -> None:
        _, subtask, kind, a, b = effect
        point = TELL_POINTS.get(kind)
        if point is not None:
            self.reach(point)
        fate, self.fate = self.fate, ""
        if fate != "lost":
            self.post(subtask - 1, (subtask, self.generation), (kind, a, b))

    def _coordinator_timer(self: Simulation, effect: Effect) -> None:
        _, delay, kind, a = effect
        self.post(delay, (0, self.generation), (kind, a, None))

    def _coordinator_persist(self: Simulation, effect: Effect) -> None:
        record: CheckpointRecord = effect[1]
        self.reach("checkpoint.persist.before")
        muted, self.muted = self.muted, True
        self.watcher.deciding(self, record)
        self.muted = muted
        try:
            self.storage.decide(record)
        except OSError as error:  # a full disk, say: nobody was told, so the checkpoint can still be aborted
            self.note("coordinator", "not durable", record.checkpoint_id)
            self.post(self.latency.decide, (0, self.generation), ("not_durable", record.checkpoint_id, str(error)))
            return
        self.note("coordinator", "complete", record.checkpoint_id)
        self.reach("checkpoint.persist.after")
        self.post(self.latency.decide, (0, self.generation), ("durable", record.checkpoint_id, None))

    def _coordinator_discard(self: Simulation, effect: Effect) -> None:
        self.storage.discard(effect[1])

    def _coordinator_restart(self: Simulation, effect: Effect) -> None:
        self.post(effect[1], (0, self.generation), ("regenerate", None, None))

    def _coordinator_deploy(self: Simulation, effect: Effect) -> None:
        self.deploy(effect[1])

    def _coordinator_finish(self: Simulation, effect: Effect) -> None:
        self.finished, self.coordinator = True, None
        for key in self.subtasks:
            self.post(1, key, ("cancel", None, None))

    def _coordinator_give_up(self: Simulation, effect: Effect) -> None:
        self.failure = effect[1]
        self.queue.clear()


TELL_POINTS = {"trigger": "checkpoint.trigger", "complete": "checkpoint.notify", "aborted": "checkpoint.abort"}
ACTIONS: dict[str, Any] = {
    name.removeprefix("_do_"): action for name, action in vars(Acting).items() if name.startswith("_do_")
}
