"""The checkpoint coordinator: triggers checkpoints, counts votes, decides, notifies, restarts. A pure state machine.

Rules:
 1. checkpoint ids grow by one, or to one of `checkpoint_ids_after_gaps`, over restarts too, and generations grow with
    every restart. Only a crash of the whole job loses the counter: then ids go on from the restored checkpoint, and
    one that was never complete may come again;
 2. a checkpoint is complete when every subtask has acknowledged it *and* its decision is durable; no notification of
    its completion is sent before;
 3. one declined or missing vote aborts it for all; rows of it belong to the next complete one;
 4. a complete checkpoint subsumes every older pending one: those are aborted before it is announced;
 5. the shell drops messages of another generation: their senders are dead, or zombies;
 6. after a failure the restart strategy decides; the next generation starts from the latest complete checkpoint;
 7. bounded input ends with a final checkpoint; the job is finished when that is complete and every sink has settled.

The phases of one checkpoint are the table TRANSITIONS; what is not in it raises.

Effects: ("send", subtask, kind, a, b) · ("persist", record) · ("timer", delay, kind, a) · ("restart", delay) ·
("deploy", record) · ("finish",) · ("give_up", why) · ("discard", checkpoint_id) · ("note", why)
"""

from __future__ import annotations

import enum
from typing import Any, Final, NamedTuple

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration, Cleanup
from sinkproof.reference_engine.checkpointing.restart_strategy import RestartStrategy
from sinkproof.reference_engine.dataflow.job_graph import Plan

Effect = tuple[Any, ...]


class CheckpointPhase(enum.Enum):
    TRIGGERED = "triggered"  # barriers are on their way, votes come in
    PERSISTING = "persisting"  # all votes are in; the decision is not durable
    COMPLETE = "complete"
    ABORTED = "aborted"


class CheckpointEvent(enum.Enum):
    ALL_ACKNOWLEDGED = "all acknowledged"
    DECLINED = "declined"
    EXPIRED = "expired"
    SUBSUMED = "subsumed"
    DURABLE = "durable"
    NOT_DURABLE = "not durable"


TRANSITIONS: Final = {
    (CheckpointPhase.TRIGGERED, CheckpointEvent.ALL_ACKNOWLEDGED): CheckpointPhase.PERSISTING,
    (CheckpointPhase.TRIGGERED, CheckpointEvent.DECLINED): CheckpointPhase.ABORTED,
    (CheckpointPhase.TRIGGERED, CheckpointEvent.EXPIRED): CheckpointPhase.ABORTED,
    (CheckpointPhase.TRIGGERED, CheckpointEvent.SUBSUMED): CheckpointPhase.ABORTED,
    (CheckpointPhase.PERSISTING, CheckpointEvent.SUBSUMED): CheckpointPhase.ABORTED,
    (CheckpointPhase.PERSISTING, CheckpointEvent.DURABLE): CheckpointPhase.COMPLETE,
    (CheckpointPhase.PERSISTING, CheckpointEvent.NOT_DURABLE): CheckpointPhase.ABORTED,
}


class CheckpointRecord(NamedTuple):
    """What is made durable as the decision: from this alone the whole job can be restored."""

    checkpoint_id: int
    final: bool
    states: dict[str, Any]  # subtask name -> its state, or a reference to it
    parallelism: dict[str, int]  # vertex -> parallelism


class CoordinatorStep(NamedTuple):
    """One call of `Coordinator.on`."""

    now: float  # ms
    event: tuple[str, Any, Any]
    effects: list[Effect]


class CoordinatorTerm(NamedTuple):
    """A log of one coordinator, from its election until it dies, is replaced or finishes the job: it shows from outside
    whether the rules above were kept (harness/judging/coordinator_rules.py).
    """

    plan: Plan
    record: CheckpointRecord | None  # the checkpoint that its generation was restored from
    checkpoint_id_last: int  # the greatest id that was triggered before its election
    steps: list[CoordinatorStep]


class _Pending:
    __slots__ = ("phase", "states")

    def __init__(self) -> None:
        self.phase = CheckpointPhase.TRIGGERED
        self.states: dict[str, Any] = {}


class Coordinator:
    """Built afresh for every generation. `checkpoint_id_last`: the greatest id that this run has triggered."""

    def __init__(
        self,
        plan: Plan,
        configuration: CheckpointConfiguration,
        restart: RestartStrategy,
        *,
        record: CheckpointRecord | None = None,
        checkpoint_id_last: int = 0,
    ) -> None:
        self.plan, self.configuration, self.restart, self.record = plan, configuration, restart, record
        self.pending: dict[int, _Pending] = {}
        self.checkpoint_id_next = max(record.checkpoint_id if record else 0, checkpoint_id_last) + 1
        self.sources = [subtask.id for subtask in plan.subtasks if subtask.source is not None]
        self.sinks = [subtask.id for subtask in plan.subtasks if subtask.sink]
        self.ended: set[int] = set()
        self.cuts: dict[int, int] = {}
        self.closed: set[int] = set()
        self.unsettled: dict[int, dict[int, float]] = {}  # sink -> checkpoint id -> in doubt since
        self.checkpoint_id_final = record.checkpoint_id if record and record.final else 0
        self.ending = False  # no more rows: the next checkpoint to complete is the final one
        self.over = False
        self.trigger_due = False
        self.failures_in_row = 0
        self.ended_last_ms = float("-inf")  # when the last checkpoint ended, well or not

    def on(self, now: float, event: tuple[str, Any, Any]) -> list[Effect]:
        """Handles one event (kind, a, b) at `now` (ms) and returns what is to be done, in order."""
        if self.over:
            return []
        kind, a, b = event
        return getattr(self, kind)(now, a, b)  # type: ignore[no-any-return]

    # -- starting and ending -----------------------------------------------------------------------

    def start(self, now: float, _: Any, __: Any) -> list[Effect]:
        effects: list[Effect] = [("deploy", self.record)]
        if self.checkpoint_id_final:
            effects.append(("timer", self.configuration.closing_patience, "closing", None))
        elif self.configuration.interval is not None:
            effects.append(("timer", self.configuration.interval, "tick", None))
        return effects

    def opened(self, now: float, subtask: int, _: Any) -> list[Effect]:
        """A subtask restored from the final checkpoint only has to settle it.

        One that opens late may find a final checkpoint triggered already: it is not complete, so it is not notified.
        """
        restored = self.record
        if restored is None or not restored.final:
            return []
        return [("send", subtask, "complete", restored.checkpoint_id, True)]

    def ended_source(self, now: float, subtask: int, _: Any) -> list[Effect]:
        self.ended.add(subtask)
        if len(self.ended) == len(self.sources):
            self.ending = True
            return self._trigger_if_allowed(now)
        return self._trigger_at_cut(now)

    def closed_sink(self, now: float, subtask: int, _: Any) -> list[Effect]:
        self.closed.add(subtask)
        self.unsettled.pop(subtask, None)
        if not self.closed.issuperset(self.sinks):
            return []
        self.over = True
        return [("finish",)]

    def closing(self, now: float, _: Any, __: Any) -> list[Effect]:
        """The last notification may have been lost; a restart from the final checkpoint settles it.

        A sink that reports unsettled transactions has received it, and has the settle deadline.
        """
        if self.closed.union(self.unsettled).issuperset(self.sinks):
            return [("timer", self.configuration.closing_patience, "closing", None)]
        return self._fail(now, "a sink was not settled after the final checkpoint")

    def cancel(self, now: float, _: Any, __: Any) -> list[Effect]:
        self.over = True
        delete = self.configuration.externalized_checkpoint_cleanup is Cleanup.DELETE_ON_CANCELLATION
        # A checkpoint that is being persisted may be complete already, and then it is the one to be retained.
        undecided = [
            checkpoint_id for checkpoint_id, one in self.pending.items() if one.phase is CheckpointPhase.TRIGGERED
        ]
        discarded = [*undecided, *([0] if delete else [])]  # 0: the retained ones
        return [*(("discard", checkpoint_id) for checkpoint_id in discarded), ("finish",)]

    def stop_with_checkpoint(self, now: float, drain: bool | None, _: Any) -> list[Effect]:
        """Sources stop reading; a final checkpoint commits what they have read. `drain`: windows are fired."""
        return [("send", source, "stop", drain, None) for source in self.sources]

    # -- triggering --------------------------------------------------------------------------------

    def tick(self, now: float, _: Any, __: Any) -> list[Effect]:
        return [*self._trigger_if_allowed(now), ("timer", self.configuration.interval, "tick", None)]

    def cut(self, now: float, subtask: int, number: int) -> list[Effect]:
        """A source waits where its next checkpoint is to be cut."""
        self.cuts[subtask] = number
        return self._trigger_at_cut(now)

    def _trigger_at_cut(self, now: float) -> list[Effect]:
        waiting = [source for source in self.sources if source not in self.ended]
        ready = waiting and all(source in self.cuts for source in waiting)
        return self._trigger_if_allowed(now) if ready else []

    def _trigger_if_allowed(self, now: float) -> list[Effect]:
        self.trigger_due = False
        if self.checkpoint_id_final:
            return []
        pause = self.ended_last_ms + self.configuration.min_pause_between_checkpoints - now
        if len(self.pending) >= self.configuration.concurrent:
            self.trigger_due = True
            return []
        if pause > 0:
            return [("timer", pause, "retrigger", None)]
        return self._trigger(now)

    def retrigger(self, now: float, _: Any, __: Any) -> list[Effect]:
        return self._trigger_if_allowed(now)

    def _trigger(self, now: float) -> list[Effect]:
        """The final one stays aligned: a row that were only recorded in it would never be written."""
        after_gaps = self.configuration.checkpoint_ids_after_gaps
        checkpoint_id = next((each for each in after_gaps if each >= self.checkpoint_id_next), self.checkpoint_id_next)
        self.checkpoint_id_next = checkpoint_id + 1
        self.pending[checkpoint_id] = _Pending()
        self.cuts.clear()
        if self.ending:
            self.checkpoint_id_final = checkpoint_id
        started = now if self.configuration.unaligned and not self.ending else None
        return [
            *(("send", source, "trigger", checkpoint_id, started) for source in self.sources),
            ("timer", self.configuration.checkpoint_timeout, "expired", checkpoint_id),
        ]

    # -- votes and decision ------------------------------------------------------------------------

    def acknowledged(self, now: float, checkpoint_id: int, vote: tuple[str, Any]) -> list[Effect]:
        pending = self.pending.get(checkpoint_id)
        if pending is None or pending.phase is not CheckpointPhase.TRIGGERED:
            return []
        counted = pending.states.setdefault(*vote)
        assert counted == vote[1], f"{vote[0]} has voted twice for {checkpoint_id}, for different states"
        if len(pending.states) < len(self.plan.subtasks):
            return []
        pending.phase = TRANSITIONS[pending.phase, CheckpointEvent.ALL_ACKNOWLEDGED]
        final = checkpoint_id == self.checkpoint_id_final
        return [("persist", CheckpointRecord(checkpoint_id, final, dict(pending.states), self.plan.parallelism))]

    def durable(self, now: float, checkpoint_id: int, _: Any) -> list[Effect]:
        """The decision holds from here on. Every sink is notified, of aborted older checkpoints first."""
        pending = self.pending.get(checkpoint_id)
        if pending is None:
            return []  # a newer one was faster and has subsumed it
        pending.phase = TRANSITIONS[pending.phase, CheckpointEvent.DURABLE]
        self.failures_in_row, self.ended_last_ms = 0, now
        effects: list[Effect] = []
        for older in [older for older in self.pending if older < checkpoint_id]:
            effects += self._abort(older, CheckpointEvent.SUBSUMED)
        del self.pending[checkpoint_id]
        final = checkpoint_id == self.checkpoint_id_final
        effects += [("send", sink, "complete", checkpoint_id, final) for sink in self.sinks]
        if final:
            effects.append(("timer", self.configuration.closing_patience, "closing", None))
        return effects + self._trigger_what_is_due(now)

    def _trigger_what_is_due(self, now: float) -> list[Effect]:
        return self._trigger_if_allowed(now) if self.trigger_due else []

    def declined(self, now: float, checkpoint_id: int, vote: tuple[str, str]) -> list[Effect]:
        return self._failed_checkpoint(now, checkpoint_id, CheckpointEvent.DECLINED)

    def expired(self, now: float, checkpoint_id: int, _: Any) -> list[Effect]:
        return self._failed_checkpoint(now, checkpoint_id, CheckpointEvent.EXPIRED)

    def not_durable(self, now: float, checkpoint_id: int, why: str) -> list[Effect]:
        return self._failed_checkpoint(now, checkpoint_id, CheckpointEvent.NOT_DURABLE)

    def _failed_checkpoint(self, now: float, checkpoint_id: int, event: CheckpointEvent) -> list[Effect]:
        pending = self.pending.get(checkpoint_id)
        if pending is None or (pending.phase, event) not in TRANSITIONS:
            return []  # over already, or decided: a late vote or timer changes nothing
        effects = self._abort(checkpoint_id, event)
        self.ended_last_ms = now
        self.failures_in_row += 1
        if self.failures_in_row > self.configuration.tolerable_checkpoint_failure_number:
            return effects + self._give_reason(now, f"{self.failures_in_row} checkpoints failed in a row")
        if checkpoint_id == self.checkpoint_id_final:
            self.checkpoint_id_final = 0
            return effects + self._trigger_if_allowed(now)
        return effects + self._trigger_what_is_due(now)

    def _abort(self, checkpoint_id: int, event: CheckpointEvent) -> list[Effect]:
        pending = self.pending.pop(checkpoint_id)
        pending.phase = TRANSITIONS[pending.phase, event]
        return [
            ("discard", checkpoint_id),
            *(("send", subtask.id, "aborted", checkpoint_id, None) for subtask in self.plan.subtasks),
        ]

    # -- transactions in doubt, and failures ------------------------------------------------------------

    def unsettled_sink(self, now: float, subtask: int, checkpoint_ids: tuple[int, ...]) -> list[Effect]:
        was = self.unsettled.pop(subtask, {})
        if not checkpoint_ids:
            return []
        self.unsettled[subtask] = since = {one: was.get(one, now) for one in checkpoint_ids}
        timer = ("timer", self.configuration.settle_deadline, "settle_deadline", subtask)
        return [] if since.keys() <= was.keys() else [timer]

    def settle_deadline(self, now: float, subtask: int, _: Any) -> list[Effect]:
        doubtful = self.unsettled.get(subtask, {})
        late = [one for one, since in doubtful.items() if now - since >= self.configuration.settle_deadline]
        if not late:
            return []
        ids, deadline = ", ".join(map(str, late)), self.configuration.settle_deadline
        sink = self.plan.names[subtask]
        return self._give_reason(now, f"{sink} is still in doubt about checkpoint {ids} after {deadline:,} ms")

    def failed(self, now: float, subtask: int, why: str) -> list[Effect]:
        """An attempt died or raised."""
        return self._fail(now, why)

    def _give_reason(self, now: float, why: str) -> list[Effect]:
        """A failure without a death or an exception: the note is its only cause in the log."""
        return [("note", why), *self._fail(now, why)]

    def _fail(self, now: float, why: str) -> list[Effect]:
        """The next generation takes over from the latest complete checkpoint, unless the restart strategy gives up."""
        self.over = True
        delay = self.restart.next_delay(now)
        return [("give_up", why)] if delay is None else [("restart", delay)]
