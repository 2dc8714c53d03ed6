"""One attempt of one subtask, as a pure state machine: an event in, effects out; shells deliver and act.

Events (a method each): open, emit, trigger, rows, barrier, end, captured, persisted, complete, aborted, settled,
settle.
Effects (tuples, because they are the hot path of simulations; the first item names the effect):

    ("open",)                        open the sink                    ("write", batch)      give rows to the sink
    ("capture", id, states)          snapshot the sink, then call `captured`
    ("upload", id, states)           persist; when done, the event `persisted`
    ("cancel_upload", id)            give an upload up
    ("acknowledge", id, states)      vote                             ("report", kind, a)   tell the coordinator
    ("send", to, kind, payload)      to another subtask, in order     ("drain", events)     process held-back events
    ("notify", id)                   sink.notify_complete, then `settled`
    ("notify_aborted", id)           ("settle",)  sink.settle, then `settled`     ("end_of_input",)
    ("timer", delay, kind)           an event to myself later
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sinkproof.reference_engine.alignment import Aligned, Alignment, Event, Tracked
from sinkproof.reference_engine.job_graph import SubtaskPlan
from sinkproof.reference_engine.sources import SourceReader
from sinkproof.sink_adapters.protocol import Batch

SETTLE_EVERY_MS: Final = 5  # while something is unsettled; short against the settle deadline, long against a message

Effect = tuple[Any, ...]
States = dict[str, Any]  # part of the subtask ("source", "sink", operator name) -> its state


class Subtask:
    __slots__ = (
        "alignment",
        "barrier_every",
        "closing",
        "ended",
        "finished",
        "operators",
        "outputs",
        "plan",
        "reader",
        "settling",
        "targets",
        "uploading",
        "waiting",
    )

    def __init__(self, plan: SubtaskPlan, *, aligned: bool = True, barrier_every: int | None = None) -> None:
        self.plan = plan
        self.alignment: Alignment = Aligned(len(plan.inputs)) if aligned else Tracked(len(plan.inputs))
        self.operators = [(name, make()) for name, make in plan.operators]
        self.reader = SourceReader(plan.source, plan.splits) if plan.source else None
        self.outputs = plan.outputs
        self.targets = tuple(target for output in plan.outputs for target in output.targets)
        self.barrier_every = barrier_every  # batches: pause there until the checkpoint is triggered
        self.ended = 0  # input channels at their end
        self.finished = False  # the source has no more rows
        self.waiting = False  # the source waits at a cut for its trigger
        self.closing = 0  # the final checkpoint, once it is complete
        self.uploading: set[int] = set()
        self.settling = False  # the timer is running

    def on(self, kind: str, a: Any, b: Any) -> list[Effect] | tuple[Effect, ...]:
        """Handles one event and says what is to be done about it, in order."""
        return getattr(self, kind)(a, b)  # type: ignore[no-any-return]

    # -- starting ---------------------------------------------------------------------------------------------------

    def open(self, _: Any, __: Any) -> list[Effect]:
        effects: list[Effect] = (
            [("open",), ("report", "opened", None)] if self.plan.sink else [("report", "opened", None)]
        )
        if self.reader is not None:
            effects.append(("timer", None, "emit"))
        return effects

    # -- rows -------------------------------------------------------------------------------------------------------

    def emit(self, _: Any, __: Any) -> list[Effect] | tuple[Effect, ...]:
        """The source's own clock: the next batch, or the end."""
        assert self.reader is not None
        if self.waiting or self.finished:
            return ()
        at = self.reader.next()
        if at is None:
            return self.stop(None, None)
        sends = self._emissions(at)
        if self.barrier_every and self.reader.batches_read % self.barrier_every == 0 and self._more():
            self.waiting = True
            return (*sends, ("report", "cut", self.reader.batches_read // self.barrier_every))
        return (*sends, ("timer", None, "emit"))

    def _emissions(self, at: tuple[int, int]) -> Sequence[Effect]:
        """What a source without operators sends for a batch is constant: made once, shared by every run of the plan."""
        assert self.reader is not None
        if self.operators or self.plan.sink:
            return self._process(self.reader.input.batch(*at))
        made = self.plan.emissions.get(at)
        if made is None:
            batch = self.reader.input.batch(*at)
            made = tuple(self._process(batch))
            if not batch.columnar:  # columns are for inputs larger than any memory
                self.plan.emissions[at] = made
        return made

    def stop(self, _: Any, __: Any) -> list[Effect] | tuple[Effect, ...]:
        """Stop with a checkpoint: the input ends here."""
        if self.finished:
            return ()
        self.finished, self.waiting = True, False
        last: list[Effect] = [("end_of_input",)] if self.plan.sink else []  # chained: no channel brings it the end
        return [*last, ("report", "ended_source", None), *(("send", target, "end", None) for target in self.targets)]

    def _more(self) -> bool:
        assert self.reader is not None
        return any(offset < self.reader.input.length(split) for split, offset in self.reader.offsets.items())

    def rows(self, channel: int, batch: Batch) -> list[Effect] | tuple[Effect, ...]:
        if channel in self.alignment.blocked:
            self.alignment.hold(("rows", channel, batch))
            return ()
        return self._process(batch)

    def _process(self, batch: Batch) -> list[Effect]:
        for _, operator in self.operators:
            batch = operator.apply(batch)
        if self.plan.sink:
            return [("write", batch)]
        return [("send", to, "rows", part) for output in self.outputs for to, part in output.route(batch)]

    def end(self, channel: int, _: Any) -> list[Effect] | tuple[Effect, ...]:
        if channel in self.alignment.blocked:
            self.alignment.hold(("end", channel, None))
            return ()
        self.ended += 1
        if self.ended < len(self.plan.inputs):
            return ()
        if self.plan.sink:
            return (("end_of_input",),)
        return [("send", target, "end", None) for target in self.targets]

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def trigger(self, checkpoint_id: int, _: Any) -> list[Effect]:
        """Sources only: the coordinator starts a checkpoint here."""
        effects = self._snapshot(checkpoint_id)
        if self.waiting:
            self.waiting = False
            effects.append(("timer", None, "emit"))
        return effects

    def barrier(self, channel: int, checkpoint_id: int) -> list[Effect] | tuple[Effect, ...]:
        if channel in self.alignment.blocked:
            self.alignment.hold(("barrier", channel, checkpoint_id))
            return ()
        if self.alignment.overtaken_by(checkpoint_id):
            held = self._give_up(self.alignment.checkpoint_id)
            return (("drain", [*held, ("barrier", channel, checkpoint_id)]),)
        due = self.alignment.barrier(channel, checkpoint_id)
        return () if due is None else self._snapshot(due)

    def _snapshot(self, checkpoint_id: int) -> list[Effect]:
        states: States = {name: operator.capture() for name, operator in self.operators}
        if self.reader is not None:
            states["source"] = self.reader.capture()
        if self.plan.sink:
            return [("capture", checkpoint_id, states)]
        return self.captured(checkpoint_id, states)

    def captured(self, checkpoint_id: int, states: States) -> list[Effect]:
        """The state is captured: the barrier goes on, rows go on; the vote follows when the state is persisted."""
        self.uploading.add(checkpoint_id)
        effects: list[Effect] = [("send", target, "barrier", checkpoint_id) for target in self.targets]
        effects.append(("upload", checkpoint_id, states))
        if held := self.alignment.release():
            effects.append(("drain", held))
        return effects

    def persisted(self, checkpoint_id: int, states: States) -> list[Effect] | tuple[Effect, ...]:
        if checkpoint_id not in self.uploading:
            return ()  # given up meanwhile
        self.uploading.discard(checkpoint_id)
        return (("acknowledge", checkpoint_id, states),)

    def aborted(self, checkpoint_id: int, _: Any) -> list[Effect]:
        effects: list[Effect] = [("notify_aborted", checkpoint_id)] if self.plan.sink else []
        if checkpoint_id in self.uploading:
            self.uploading.discard(checkpoint_id)
            effects.append(("cancel_upload", checkpoint_id))
        if held := self._give_up(checkpoint_id):
            effects.append(("drain", held))
        return effects

    def _give_up(self, checkpoint_id: int) -> list[Event]:
        return self.alignment.release() if self.alignment.cancel(checkpoint_id) else []

    def complete(self, checkpoint_id: int, final: bool) -> list[Effect] | tuple[Effect, ...]:
        if final:
            self.closing = checkpoint_id
        if self.plan.sink:
            return (("notify", checkpoint_id),)
        return (("report", "closed_sink", None),) if final else ()

    # -- what is in doubt -------------------------------------------------------------------------------------------

    def settled(self, unsettled: list[int], _: Any) -> tuple[Effect, ...]:
        """The sink has said what it could not settle yet."""
        if unsettled:
            timer = () if self.settling else (("timer", SETTLE_EVERY_MS, "settle"),)
            self.settling = True
            return (("report", "unsettled_sink", tuple(unsettled)), *timer)
        return (("report", "closed_sink", None),) if self.closing else (("report", "unsettled_sink", ()),)

    def settle(self, _: Any, __: Any) -> tuple[Effect, ...]:
        self.settling = False
        return (("settle",),)
