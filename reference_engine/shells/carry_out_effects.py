"""Carries out the effects of the pure core on sinks, channels and storage, with a point around each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappush
from random import Random
from typing import Any, Final, Protocol

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord, Coordinator
from sinkproof.reference_engine.checkpointing.memory_storage import CheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import Restored
from sinkproof.reference_engine.dataflow.subtask import Effect, Subtask
from sinkproof.reference_engine.shells.attempt_context import AttemptContext
from sinkproof.reference_engine.shells.held_back_notifications import LATE_VOTE_MS, Held
from sinkproof.reference_engine.shells.held_back_notifications import send as send_message
from sinkproof.reference_engine.shells.job import Job, RunningJob
from sinkproof.reference_engine.shells.virtual_timing import Latencies
from sinkproof.sink_adapters.protocol import Batch, Sink, left_in_doubt, unsettled_ids

JOB_ID = "job"
IN_DOUBT: Final = "in doubt"  # noted of a sink that could not settle all restored transactions in `open`
Key = tuple[int, int]  # (actor id, generation)
Action = Callable[[Any, Key, Effect], None]


class SubtaskShell(Protocol):
    """What the effects of subtasks need of the shell that carries them out."""

    names: tuple[str, ...]
    message_fault: str  # of the message that is being sent: "", "lost", "late", "repeated" or "declined"
    job: Job
    latency: Latencies
    storage: CheckpointStorage
    subtasks: dict[Key, Subtask]
    sinks: dict[Key, Sink]
    restored: dict[Key, Restored]
    actions: dict[str, Action]

    @property
    def now(self) -> float:
        """Milliseconds since a beginning that each shell chooses."""

    def reach(self, point: str) -> None: ...

    def note(self, actor: str, what: str, detail: Any) -> None: ...

    def post(self, delay: float, key: Key, event: tuple[str, Any, Any]) -> None:
        """Sends an event to an actor, `delay` ms from now; the coordinator is actor 0."""

    def random_for(self, key: Key) -> Random: ...

    def clock_for(self, key: Key) -> Callable[[], float]:
        """Seconds, as this attempt sees them."""


class CoordinatorShell(SubtaskShell, Protocol):
    """What the coordinator's effects need."""

    generation: int
    checkpoint_id_last: int
    held: Held  # messages that wait until a newer one to the same subtask has been sent
    points_off: bool
    watcher: Any  # has `deciding` of a Watcher
    coordinator: Coordinator | None
    finished: bool
    failure: str
    queue: list[tuple[Any, ...]]

    def deploy(self, record: CheckpointRecord | None) -> None: ...


def act(shell: SubtaskShell, key: Key, effects: Iterable[Effect]) -> None:
    actions = shell.actions
    for effect in effects:
        actions[effect[0]](shell, key, effect)


# -- data ---------------------------------------------------------------------------------------------------------


def send(shell: RunningJob, key: Key, effect: Effect) -> None:
    _, to, kind, payload = effect
    shell.sequence = sequence = shell.sequence + 1
    sender, generation = key
    at = shell.now + shell.latency.channel[sender, to]
    heappush(shell.queue, (at, sequence, (to, generation), (kind, sender, payload)))


def hand_over(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    """Sends between bounded buffers: rows without credit wait (buffered_input.py)."""
    _, to, kind, payload = effect
    act(shell, key, shell.subtasks[key].hand_over(to, kind, payload))  # type: ignore[attr-defined]


def transmit(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _, to, item = effect
    shell.post(shell.latency.channel[key[0], to], (to, key[1]), ("arrive", key[0], item))


def grant(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _, to, credits_ = effect
    shell.post(shell.latency.channel[to, key[0]], (to, key[1]), ("granted", key[0], credits_))


def note(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    shell.note(shell.names[key[0]], effect[1], effect[2])


def write(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    batch: Batch = effect[1]
    shell.reach("write.before")
    shell.sinks[key].write(batch)
    shell.reach("write.after")


def timer(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    delay = shell.latency.pace[key[0]] if effect[1] is None else effect[1]
    if effect[2] == "settle":
        delay *= shell.latency.settle
    shell.post(delay, key, (effect[2], None, None))


def alarm(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    """A timer for a time, which may be long past, rather than for a delay."""
    _, at, kind, a = effect
    shell.post(max(0, at - shell.now), key, (kind, a, None))


def later(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _, delay, kind, a = effect
    shell.post(delay, key, (kind, a, None))


def drain(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    for event in effect[1]:
        kind, a, b = event
        act(shell, key, shell.subtasks[key].on(kind, a, b))


def report(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    shell.post(1, (0, key[1]), (effect[1], key[0], effect[2]))


# -- opening and ending a sink -----------------------------------------------------------------------------------


def open_sink(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    restored, plan = shell.restored.pop(key), shell.subtasks[key].plan
    clock = shell.clock_for(key)
    context = AttemptContext(
        job_id=JOB_ID,
        sink_id=plan.vertex,
        subtask=plan.index,
        parallelism=plan.parallelism,
        parallelism_restored=restored.parallelism,
        generation=key[1],
        checkpoint_id_restored=restored.checkpoint_id,
        restored=restored.sinks,
        subtasks_restored=restored.sinks_known,
        clock=clock,
        deadline=clock() + shell.job.configuration.settle_deadline / 1000,
        random_made=partial(shell.random_for, key),
        reach=shell.reach,
    )
    shell.reach("open.before")
    in_doubt = left_in_doubt(shell.sinks[key].open(context))
    shell.reach("open.after")
    if in_doubt:
        shell.note(shell.names[key[0]], IN_DOUBT, tuple(in_doubt))
        act(shell, key, shell.subtasks[key].settled(in_doubt, None))


def end_of_input(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _call(shell, "end_of_input", key)


def _call(shell: SubtaskShell, name: str, key: Key, *arguments: Any) -> Any:
    """Makes a call that not every sink has."""
    shell.reach(name + ".before")
    call = getattr(shell.sinks[key], name, None)
    answer = call(*arguments) if call is not None else None
    shell.reach(name + ".after")
    return answer


# -- checkpoints -------------------------------------------------------------------------------


def capture(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _, checkpoint_id, states = effect
    shell.reach("snapshot.before")
    state = shell.sinks[key].snapshot(checkpoint_id)
    if not isinstance(state, (bytes, bytearray)):
        raise TypeError(f"snapshot({checkpoint_id}) returned {type(state).__name__}, not bytes")
    states["sink"] = bytes(state)
    shell.reach("snapshot.after")
    act(shell, key, shell.subtasks[key].captured(checkpoint_id, states))


def upload(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _, checkpoint_id, states = effect
    kept = shell.storage.store(checkpoint_id, shell.names[key[0]], states)
    shell.post(shell.latency.upload[key[0]], key, ("persisted", checkpoint_id, kept))


def cancel_upload(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    shell.note(shell.names[key[0]], "upload cancelled", effect[1])


def acknowledge(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _, checkpoint_id, states = effect
    shell.reach("acknowledge.before")
    fault, shell.message_fault = shell.message_fault, ""
    name, kind = shell.names[key[0]], "declined" if fault == "declined" else "acknowledged"
    shell.note(name, kind, checkpoint_id)
    shell.post(LATE_VOTE_MS if fault == "late" else 1, (0, key[1]), (kind, checkpoint_id, (name, states)))
    shell.reach("acknowledge.after")


def notify(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    answer = _call(shell, "notify_complete", key, effect[1])
    act(shell, key, shell.subtasks[key].settled(unsettled_ids("notify_complete", answer), None))


def notify_aborted(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    _call(shell, "notify_aborted", key, effect[1])


def settle(shell: SubtaskShell, key: Key, effect: Effect) -> None:
    answer = _call(shell, "settle", key, shell.clock_for(key)())
    act(shell, key, shell.subtasks[key].settled(unsettled_ids("settle", answer), None))


# -- the coordinator ---------------------------------------------------------------------------


def act_for_coordinator(shell: CoordinatorShell, effects: Iterable[Effect]) -> None:
    for effect in effects:
        COORDINATOR_ACTIONS[effect[0]](shell, effect)


def _send_notification(shell: CoordinatorShell, effect: Effect) -> None:
    _, subtask, kind, a, b = effect
    if kind == "trigger":
        shell.checkpoint_id_last = max(shell.checkpoint_id_last, a)
    point = NOTIFICATION_POINTS.get(kind)
    if point is not None:
        shell.reach(point)
    fault, shell.message_fault = shell.message_fault, ""
    place: int = shell.latency.turn.get(("notify", subtask)) or subtask
    send_message(shell, (subtask, shell.generation), (kind, a, b), delay=place - 1, fault=fault)


def _timer(shell: CoordinatorShell, effect: Effect) -> None:
    _, delay, kind, a = effect
    shell.post(delay, (0, shell.generation), (kind, a, None))


def _persist(shell: CoordinatorShell, effect: Effect) -> None:
    record: CheckpointRecord = effect[1]
    shell.reach("checkpoint.persist.before")
    points_off, shell.points_off = shell.points_off, True
    shell.watcher.deciding(shell, record)
    shell.points_off = points_off
    try:
        shell.storage.decide(record)
    except OSError as error:  # a full disk, say: no notification was sent, so the checkpoint can still be aborted
        shell.note("coordinator", "not durable", record.checkpoint_id)
        shell.post(shell.latency.decide, (0, shell.generation), ("not_durable", record.checkpoint_id, str(error)))
        return
    shell.note("coordinator", "complete", record.checkpoint_id)
    shell.reach("checkpoint.persist.after")
    shell.post(shell.latency.decide, (0, shell.generation), ("durable", record.checkpoint_id, None))


def _discard(shell: CoordinatorShell, effect: Effect) -> None:
    shell.storage.discard(effect[1])


def _restart(shell: CoordinatorShell, effect: Effect) -> None:
    shell.post(effect[1], (0, shell.generation), ("regenerate", None, None))


def _deploy(shell: CoordinatorShell, effect: Effect) -> None:
    points_off, shell.points_off = shell.points_off, True
    shell.watcher.deploying(shell)
    shell.points_off = points_off
    shell.deploy(effect[1])


def _finish(shell: CoordinatorShell, effect: Effect) -> None:
    shell.finished, shell.coordinator = True, None
    for key in shell.subtasks:
        shell.post(1, key, ("cancel", None, None))


def _note_failure(shell: CoordinatorShell, effect: Effect) -> None:
    shell.note("coordinator", "fails the job", effect[1])


def _give_up(shell: CoordinatorShell, effect: Effect) -> None:
    shell.failure = effect[1]
    shell.queue.clear()


NOTIFICATION_POINTS = {"trigger": "checkpoint.trigger", "complete": "checkpoint.notify", "aborted": "checkpoint.abort"}
ACTIONS: Final[dict[str, Action]] = {
    "acknowledge": acknowledge,
    "alarm": alarm,
    "cancel_upload": cancel_upload,
    "capture": capture,
    "drain": drain,
    "end_of_input": end_of_input,
    "later": later,
    "notify": notify,
    "notify_aborted": notify_aborted,
    "open": open_sink,
    "report": report,
    "send": send,
    "settle": settle,
    "timer": timer,
    "upload": upload,
    "write": write,
}
BUFFERED_ACTIONS: Final[dict[str, Action]] = {
    **ACTIONS,
    "grant": grant,
    "note": note,
    "send": hand_over,
    "transmit": transmit,
}
COORDINATOR_ACTIONS: Final[dict[str, Callable[[Any, Effect], None]]] = {
    "deploy": _deploy,
    "discard": _discard,
    "finish": _finish,
    "give_up": _give_up,
    "note": _note_failure,
    "persist": _persist,
    "restart": _restart,
    "send": _send_notification,
    "timer": _timer,
}
