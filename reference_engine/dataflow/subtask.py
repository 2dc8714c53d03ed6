"""One attempt of one subtask as a pure state machine: an event in, effects out; shells deliver and act.

Events (a method each): open, emit, trigger, rows, barrier, end, captured, persisted, complete, aborted, settled,
settle.
Effects (tuples, because they are the hot path of simulations; the first item names the effect):

    ("open",)                        open the sink                    ("write", batch)      give rows to the sink
    ("capture", id, states)          snapshot the sink, then call `captured`
    ("upload", id, states)           persist; when done, the event `persisted`
    ("cancel_upload", id)            cancel an upload
    ("acknowledge", id, states)      vote                             ("report", kind, a)   to the coordinator
    ("send", to, kind, payload)      to another subtask, in order     ("drain", events)     process held-back events
    ("notify", id)                   sink.notify_complete, then `settled`
    ("notify_aborted", id)           ("settle",)  sink.settle, then `settled`     ("end_of_input",)
    ("timer", delay, kind)           an event to myself later         ("alarm", at, kind, a)   ... at a time
    ("later", delay, kind, a)        ... with something to remember
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sinkproof.reference_engine.dataflow.barrier_alignment import Aligned, Event, Tracked
from sinkproof.reference_engine.dataflow.event_time import ENDED, NEVER, ChannelClock, Moved, SourceClock
from sinkproof.reference_engine.dataflow.in_flight_rows import Waiting
from sinkproof.reference_engine.dataflow.job_graph import SubtaskPlan
from sinkproof.reference_engine.dataflow.replayable_sources import is_shared
from sinkproof.sink_adapters.protocol import Batch

UNDRAINED: Final = "undrained"  # an end after which the same job may go on: windows stay open
SETTLE_EVERY_MS: Final = 5  # while something is unsettled; short against the settle deadline, long against a message

Effect = tuple[Any, ...]
States = dict[str, Any]  # part of the subtask ("source", "sink", operator name) -> its state


class Subtask:
    __slots__ = (
        "alignment",
        "barrier_every",
        "channel_clock",
        "closing",
        "ended",
        "finished",
        "operators",
        "outputs",
        "plan",
        "reader",
        "replay",
        "settling",
        "source_clock",
        "targets",
        "uploading",
        "waiting",
    )

    def __init__(self, plan: SubtaskPlan, *, aligned: bool = True, barrier_every: int | None = None) -> None:
        self.plan = plan
        self.alignment = (Aligned if aligned else Tracked)(len(plan.inputs))
        self.operators = [(name, make()) for name, make in plan.operators]
        self.reader = plan.source.reader(plan.index, plan.parallelism) if plan.source else None
        self.outputs = plan.outputs
        self.targets = tuple(target for output in plan.outputs for target in output.targets)
        self.barrier_every = barrier_every  # batches: pause there until the checkpoint is triggered
        self.ended = 0  # input channels at their end
        self.finished = False  # the source has no more rows
        self.waiting = False  # the source waits at a cut for its trigger
        self.closing = 0  # the final checkpoint, once it is complete
        self.uploading: set[int] = set()
        self.settling = False  # the timer is running
        self.source_clock = SourceClock(plan.watermarks, plan.splits) if plan.watermarks else None
        self.channel_clock = ChannelClock(plan.inputs) if plan.event_time and plan.inputs else None
        self.replay: tuple[Waiting, ...] = ()  # rows that were on their way here when the restored checkpoint was taken

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
        if self.source_clock is not None:
            effects += self._begin_event_time(self.source_clock)
        if self.replay:
            effects.append(("drain", [("rows", 0, batch) for _, batch in self.replay]))  # 0: no channel
        return effects

    # -- rows -------------------------------------------------------------------------------------------------------

    def emit(self, _: Any, __: Any) -> list[Effect] | tuple[Effect, ...]:
        """The source's own clock: the next batch, or the end."""
        assert self.reader is not None
        if self.waiting or self.finished:
            return ()
        at = self.reader.next()
        if at is None:
            return self._end(drained=True)
        sends = self._emissions(at)
        if self.source_clock is not None:
            sends = (*sends, *self._say_watermark(at))
        if self.barrier_every and self.reader.batches_read % self.barrier_every == 0 and self.reader.live():
            self.waiting = True
            return (*sends, ("report", "cut", self.reader.batches_read // self.barrier_every))
        return (*sends, ("timer", None, "emit"))

    def _emissions(self, at: tuple[int, int]) -> Sequence[Effect]:
        """What a source without operators sends for a batch is constant: made once, shared by every run of the plan."""
        assert self.reader is not None
        if self.operators or self.plan.sink:
            return self._process(self.reader.batch(*at))
        made = self.plan.emissions.get(at)
        if made is None:
            batch = self.reader.batch(*at)
            made = tuple(self._process(batch))
            if is_shared(batch):
                self.plan.emissions[at] = made
        return made

    def stop(self, drain: bool | None, _: Any) -> list[Effect] | tuple[Effect, ...]:
        """Stop with a checkpoint: the input ends here. `drain`: for good, so that open windows are fired."""
        return self._end(drained=bool(drain))

    def _end(self, *, drained: bool) -> list[Effect] | tuple[Effect, ...]:
        if self.finished:
            return ()
        self.finished, self.waiting = True, False
        last: list[Effect] = self._advance(ENDED) if self.source_clock and drained else []
        last += [("end_of_input",)] if self.plan.sink else []  # chained: no channel brings it the end
        how = UNDRAINED if self.source_clock and not drained else None
        return [*last, ("report", "ended_source", None), *(("send", target, "end", how) for target in self.targets)]

    def rows(self, channel: int, batch: Batch) -> list[Effect] | tuple[Effect, ...]:
        if channel in self.alignment.blocked:
            self.alignment.hold(("rows", channel, batch))
            return ()
        return self._process(batch)

    def _process(self, batch: Batch, *, first: int = 0) -> list[Effect]:
        """Through the operators, from the first one on, and out."""
        for _, operator in self.operators[first:] if first else self.operators:
            made = operator.apply(batch)
            if made is None:
                return []
            batch = made
        if self.plan.sink:
            return [("write", batch)]
        return [("send", to, "rows", part) for output in self.outputs for to, part in output.route(batch)]

    def end(self, channel: int, how: str | None) -> list[Effect] | tuple[Effect, ...]:
        if channel in self.alignment.blocked:
            self.alignment.hold(("end", channel, how))
            return ()
        self.ended += 1
        effects: list[Effect] = []
        if self.channel_clock is not None and how is None:
            effects = self._moved(self.channel_clock.on(channel, ENDED))
        if self.ended < len(self.plan.inputs):
            return tuple(effects)
        if self.plan.sink:
            return (*effects, ("end_of_input",))
        return [*effects, *(("send", target, "end", how) for target in self.targets)]

    # -- event time -------------------------------------------------------------------------------------------------

    def _begin_event_time(self, clock: SourceClock) -> list[Effect]:
        """What was said before a restart is said again."""
        effects = self._advance(clock.sent) if clock.sent > NEVER else []
        return effects + self._find_out_whether_it_is_idle(clock)

    def _find_out_whether_it_is_idle(self, clock: SourceClock) -> list[Effect]:
        after = clock.watermarks.idle_after_ms
        return [] if after is None else [("later", after, "quiet", clock.batches)]

    def _say_watermark(self, at: tuple[int, int]) -> list[Effect]:
        """The watermark after the batch that was just read, and a timer that finds out whether another one came."""
        clock, reader = self.source_clock, self.reader
        assert clock is not None
        assert reader is not None
        effects = self._moved(clock.read(at[0], reader.batch(*at), live=reader.live()))
        return effects + self._find_out_whether_it_is_idle(clock)

    def quiet(self, batches: int, _: Any) -> list[Effect] | tuple[Effect, ...]:
        """A source that has read nothing since becomes idle, and holds no watermark back."""
        clock = self.source_clock
        assert clock is not None
        if batches != clock.batches or self.finished:
            return ()
        clock.idle = True
        return [("send", target, "idle", None) for target in self.targets]

    def watermark(self, channel: int, watermark: float) -> list[Effect] | tuple[Effect, ...]:
        if channel in self.alignment.blocked:
            self.alignment.hold(("watermark", channel, watermark))
            return ()
        assert self.channel_clock is not None
        return self._moved(self.channel_clock.on(channel, watermark))

    def idle(self, channel: int, _: Any) -> list[Effect] | tuple[Effect, ...]:
        if channel in self.alignment.blocked:
            self.alignment.hold(("idle", channel, None))
            return ()
        clock = self.channel_clock
        assert clock is not None
        effects = self._moved(clock.on_idle(channel))
        if clock.all_idle and not clock.idle_sent:
            clock.idle_sent = True
            effects += [("send", target, "idle", None) for target in self.targets]
        return effects

    def _moved(self, watermark: Moved) -> list[Effect]:
        return [] if watermark is None else self._advance(watermark)

    def _advance(self, watermark: float) -> list[Effect]:
        """Fires windows that are over, then sends the watermark on. At the end of input, `end` is sent instead."""
        effects: list[Effect] = []
        for place, (_, operator) in enumerate(self.operators, start=1):
            fire = getattr(operator, "on_watermark", None)
            fired = fire(watermark) if fire is not None else None
            if fired is not None:
                effects += self._process(fired, first=place)
        if watermark < ENDED:
            effects += [("send", target, "watermark", watermark) for target in self.targets]
        return effects

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
        if self.source_clock is not None:
            states["event_time"] = self.source_clock.capture()
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
