"""Carrying out effects: what the pure core wants, done to sinks, channels, storage, with a point around each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord, Coordinator
from sinkproof.reference_engine.checkpointing.memory_storage import CheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import Restored
from sinkproof.reference_engine.dataflow.subtask import Effect, Subtask
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.notification_delivery import LATE_VOTE_MS, Held
from sinkproof.reference_engine.shells.notification_delivery import send as send_message
from sinkproof.reference_engine.shells.virtual_timing import Latencies
from sinkproof.sink_adapters.protocol import Batch, Context, Sink, left_in_doubt, unsettled_ids

if TYPE_CHECKING:
    from sinkproof.reference_engine.shells.simulated.simulation import Simulation

JOB_ID = "job"
IN_DOUBT: Final = "in doubt"  # noted of a sink whose `open` could not settle all that was restored
Key = tuple[int, int]  # (actor id, generation)
Action = Callable[[Any, Key, Effect], None]


class Shell(Protocol):
    """What the effects of subtasks need of the shell that carries them out."""

    names: tuple[str, ...]
    fate: str  # of the message that is just being sent: "", "lost", "late", "repeated" or "declined"
    job: Job
    latency: Latencies
    storage: CheckpointStorage
    subtasks: dict[Key, Subtask]
    sinks: dict[Key, Sink]
    restored: dict[Key, Restored]
    actions: dict[str, Action]

    @property
    def now(self) -> float:
        """Milliseconds; where they begin is the shell's affair."""

    def reach(self, point: str) -> None: ...

    def note(self, actor: str, what: str, detail: Any) -> None: ...

    def post(self, delay: float, key: Key, event: tuple[str, Any, Any]) -> None:
        """An event for somebody, `delay` ms from now; the coordinator is actor 0."""

    def random_for(self, key: Key) -> Random: ...

    def clock_for(self, key: Key) -> Callable[[], float]:
        """Seconds, as this attempt sees them."""


class CoordinatingShell(Shell, Protocol):
    """What the coordinator's effects need."""

    generation: int
    checkpoint_id_last: int
    held: Held
    muted: bool
    watcher: Any  # a Watcher, or who has nothing to watch
    coordinator: Coordinator | None
    finished: bool
    failure: str
    queue: list[tuple[Any, ...]]

    def deploy(self, record: CheckpointRecord | None) -> None: ...


def act(shell: Shell, key: Key, effects: Iterable[Effect]) -> None:
    actions = shell.actions
    for effect in effects:
        actions[effect[0]](shell, key, effect)


# -- data ---------------------------------------------------------------------------------------------------------


def send(shell: Simulation, key: Key, effect: Effect) -> None:
    _, to, kind, payload = effect
    shell.sequence = sequence = shell.sequence + 1
    sender, generation = key
    at = shell.now + shell.latency.channel[sender, to]
    heappush(shell.queue, (at, sequence, (to, generation), (kind, sender, payload)))


def hand_over(shell: Simulation, key: Key, effect: Effect) -> None:
    """A send between bounded buffers: what has no credit waits (buffered_input.py)."""
    _, to, kind, payload = effect
    act(shell, key, shell.subtasks[key].hand_over(to, kind, payload))  # type: ignore[attr-defined]


def transmit(shell: Simulation, key: Key, effect: Effect) -> None:
    _, to, item = effect
    shell.post(shell.latency.channel[key[0], to], (to, key[1]), ("arrive", key[0], item))


def grant(shell: Simulation, key: Key, effect: Effect) -> None:
    _, to, credits_ = effect
    shell.post(shell.latency.channel[to, key[0]], (to, key[1]), ("granted", key[0], credits_))


def note(shell: Shell, key: Key, effect: Effect) -> None:
    shell.note(shell.names[key[0]], effect[1], effect[2])


def write(shell: Shell, key: Key, effect: Effect) -> None:
    batch: Batch = effect[1]
    shell.reach("write.before")
    shell.sinks[key].write(batch)
    shell.reach("write.after")


def timer(shell: Shell, key: Key, effect: Effect) -> None:
    delay = shell.latency.pace[key[0]] if effect[1] is None else effect[1]
    if effect[2] == "settle":
        delay *= shell.latency.settle
    shell.post(delay, key, (effect[2], None, None))


def alarm(shell: Shell, key: Key, effect: Effect) -> None:
    """At a time, not after a delay: it may be long past."""
    _, at, kind, a = effect
    shell.post(max(0, at - shell.now), key, (kind, a, None))


def later(shell: Shell, key: Key, effect: Effect) -> None:
    _, delay, kind, a = effect
    shell.post(delay, key, (kind, a, None))


def drain(shell: Shell, key: Key, effect: Effect) -> None:
    for event in effect[1]:
        kind, a, b = event
        act(shell, key, shell.subtasks[key].on(kind, a, b))


def report(shell: Shell, key: Key, effect: Effect) -> None:
    shell.post(1, (0, key[1]), (effect[1], key[0], effect[2]))


# -- the sink's life -----------------------------------------------------------------------------------------------


def open_sink(shell: Shell, key: Key, effect: Effect) -> None:
    restored, plan = shell.restored.pop(key), shell.subtasks[key].plan
    clock = shell.clock_for(key)
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
        clock=clock,
        deadline=clock() + shell.job.configuration.settle_deadline / 1000,
        random=shell.random_for(key),
        reach=shell.reach,
    )
    shell.reach("open.before")
    in_doubt = left_in_doubt(shell.sinks[key].open(context))
    shell.reach("open.after")
    if in_doubt:
        shell.note(shell.names[key[0]], IN_DOUBT, tuple(in_doubt))
        act(shell, key, shell.subtasks[key].settled(in_doubt, None))


def end_of_input(shell: Shell, key: Key, effect: Effect) -> None:
    _call(shell, "end_of_input", key)


def _call(shell: Shell, name: str, key: Key, *arguments: Any) -> Any:
    """One of the calls that a sink may lack."""
    shell.reach(name + ".before")
    call = getattr(shell.sinks[key], name, None)
    answer = call(*arguments) if call is not None else None
    shell.reach(name + ".after")
    return answer


# -- checkpoints -------------------------------------------------------------------------------


def capture(shell: Shell, key: Key, effect: Effect) -> None:
    _, checkpoint_id, states = effect
    shell.reach("snapshot.before")
    state = shell.sinks[key].snapshot(checkpoint_id)
    if not isinstance(state, (bytes, bytearray)):
        raise TypeError(f"snapshot({checkpoint_id}) returned {type(state).__name__}, not bytes")
    states["sink"] = bytes(state)
    shell.reach("snapshot.after")
    act(shell, key, shell.subtasks[key].captured(checkpoint_id, states))


def upload(shell: Shell, key: Key, effect: Effect) -> None:
    _, checkpoint_id, states = effect
    kept = shell.storage.store(checkpoint_id, shell.names[key[0]], states)
    shell.post(shell.latency.upload[key[0]], key, ("persisted", checkpoint_id, kept))


def cancel_upload(shell: Shell, key: Key, effect: Effect) -> None:
    shell.note(shell.names[key[0]], "upload cancelled", effect[1])


def acknowledge(shell: Shell, key: Key, effect: Effect) -> None:
    _, checkpoint_id, states = effect
    shell.reach("acknowledge.before")
    fate, shell.fate = shell.fate, ""
    name, kind = shell.names[key[0]], "declined" if fate == "declined" else "acknowledged"
    shell.note(name, kind, checkpoint_id)
    shell.post(LATE_VOTE_MS if fate == "late" else 1, (0, key[1]), (kind, checkpoint_id, (name, states)))
    shell.reach("acknowledge.after")


def notify(shell: Shell, key: Key, effect: Effect) -> None:
    answer = _call(shell, "notify_complete", key, effect[1])
    act(shell, key, shell.subtasks[key].settled(unsettled_ids("notify_complete", answer), None))


def notify_aborted(shell: Shell, key: Key, effect: Effect) -> None:
    _call(shell, "notify_aborted", key, effect[1])


def settle(shell: Shell, key: Key, effect: Effect) -> None:
    answer = _call(shell, "settle", key, shell.clock_for(key)())
    act(shell, key, shell.subtasks[key].settled(unsettled_ids("settle", answer), None))


# -- the coordinator ---------------------------------------------------------------------------


def act_for_coordinator(shell: CoordinatingShell, effects: Iterable[Effect]) -> None:
    for effect in effects:
        COORDINATOR_ACTIONS[effect[0]](shell, effect)


def _tell(shell: CoordinatingShell, effect: Effect) -> None:
    _, subtask, kind, a, b = effect
    if kind == "trigger":
        shell.checkpoint_id_last = max(shell.checkpoint_id_last, a)
    point = TELL_POINTS.get(kind)
    if point is not None:
        shell.reach(point)
    fate, shell.fate = shell.fate, ""
    place: int = shell.latency.turn.get(("notify", subtask)) or subtask
    send_message(shell, (subtask, shell.generation), (kind, a, b), delay=place - 1, fate=fate)


def _timer(shell: CoordinatingShell, effect: Effect) -> None:
    _, delay, kind, a = effect
    shell.post(delay, (0, shell.generation), (kind, a, None))


def _persist(shell: CoordinatingShell, effect: Effect) -> None:
    record: CheckpointRecord = effect[1]
    shell.reach("checkpoint.persist.before")
    muted, shell.muted = shell.muted, True
    shell.watcher.deciding(shell, record)
    shell.muted = muted
    try:
        shell.storage.decide(record)
    except OSError as error:  # a full disk, say: nobody was told, so the checkpoint can still be aborted
        shell.note("coordinator", "not durable", record.checkpoint_id)
        shell.post(shell.latency.decide, (0, shell.generation), ("not_durable", record.checkpoint_id, str(error)))
        return
    shell.note("coordinator", "complete", record.checkpoint_id)
    shell.reach("checkpoint.persist.after")
    shell.post(shell.latency.decide, (0, shell.generation), ("durable", record.checkpoint_id, None))


def _discard(shell: CoordinatingShell, effect: Effect) -> None:
    shell.storage.discard(effect[1])


def _restart(shell: CoordinatingShell, effect: Effect) -> None:
    shell.post(effect[1], (0, shell.generation), ("regenerate", None, None))


def _deploy(shell: CoordinatingShell, effect: Effect) -> None:
    shell.deploy(effect[1])


def _finish(shell: CoordinatingShell, effect: Effect) -> None:
    shell.finished, shell.coordinator = True, None
    for key in shell.subtasks:
        shell.post(1, key, ("cancel", None, None))


def _note_why(shell: CoordinatingShell, effect: Effect) -> None:
    shell.note("coordinator", "fails the job", effect[1])


def _give_up(shell: CoordinatingShell, effect: Effect) -> None:
    shell.failure = effect[1]
    shell.queue.clear()


TELL_POINTS = {"trigger": "checkpoint.trigger", "complete": "checkpoint.notify", "aborted": "checkpoint.abort"}
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
    "note": _note_why,
    "persist": _persist,
    "restart": _restart,
    "tell": _tell,
    "timer": _timer,
}
