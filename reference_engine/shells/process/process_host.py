"""The process shell: every attempt of a sink is an operating system process, and dies by SIGKILL inside its own calls.

The engine around it is the simulated one. An attempt is driven one request and one reply at a time. Each
request carries the fault that is armed for it, which the attempt does to itself (attempt_child.py); the
points that it reached are read from its journal after every reply and after every death. Where a run asks for it, its
outward system calls are watched, too, and take their places among the points of the journal.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NoReturn

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults.terminate_attempt import CALLS_LEFT
from sinkproof.chaos.points import is_line, is_system_call
from sinkproof.chaos.processes.spawn import ChildProcess, ForkServer, NoReply, RepeatedCall, Silence
from sinkproof.chaos.shared.lines_of_children import MarkedLines
from sinkproof.chaos.shared.point_journal import JournalReader
from sinkproof.chaos.system_calls.supervisor import PassedCall, Record, SystemCallWatch
from sinkproof.reference_engine.shells.process.attempt_child import (
    DEADLY,
    LISTEN,
    ORDER,
    SUSPENDING,
    Recipe,
    WatchedCode,
)
from sinkproof.reference_engine.shells.process.attempt_endings import AttemptEnded, AttemptEnding, SinkError
from sinkproof.reference_engine.shells.process.call_windows import within_window
from sinkproof.reference_engine.shells.process.overseer import Armed
from sinkproof.reference_engine.shells.process.watched_attempt import WatchedAttempt, WatchingHost
from sinkproof.sink_adapters.protocol import Batch, Context, Fenced, Sink, TransactionLost

__all__ = ["AttemptEnded", "AttemptEnding", "ProcessHost", "Recipe", "RemoteSink", "SinkError", "WatchedCode"]

ENTRY: Final = "sinkproof.reference_engine.shells.process.attempt_child:live"
FIELDS_SENT: Final = tuple(each.name for each in fields(Context) if each.name not in ("clock", "random", "reach"))


class ProcessHost(WatchingHost):
    """Attempts of one sink. `other_server`: makes every second generation, in processes that hash strings in another
    way.
    """

    def __init__(
        self,
        server: ForkServer,
        recipe: Recipe,
        watched: WatchedCode,
        *,
        other_server: Callable[[], ForkServer] | None = None,
        trace_lines: bool = False,
        record: Record | None = None,
    ) -> None:
        super().__init__(server, Path(watched.calls_below), record=record)
        self.watches = bool(watched.calls_below)
        self.trace_lines = trace_lines
        self.other_server = other_server or (lambda: server)
        self.vacant: dict[str, RemoteSink] = {}  # the process of an attempt that failed, for the next of this actor
        self.generation = 0  # the latest
        self.on_restart: Callable[[], None] | None = None  # called when all attempts of an earlier one have ended
        self.on_reply: Callable[[float], None] | None = None  # called with the time that the attempt was shown
        self.life = RepeatedCall(ENTRY, recipe, watched)
        self.of_children = MarkedLines(watched.files.values()) if trace_lines and watched.files else None
        self.imported: dict[str, None] = {}  # modules that attempts of this run have imported, in their order

    def spawn(self, actor: str, subtask: int, generation: int) -> RemoteSink:
        """A new attempt that knows nothing; `open` makes its sink."""
        if generation > self.generation > 0 and self.on_restart is not None:
            self.on_restart()
        self.generation = max(self.generation, generation)
        if (vacant := self.vacant.pop(actor, None)) is not None and vacant.alive:
            return vacant
        journal = JournalReader()
        server = self.server if generation % 2 else self.other_server()
        descriptors = [journal.descriptor, *([self.of_children.descriptor] if self.of_children else [])]
        child = server.spawn(self.life, descriptors=descriptors, limits=self.limits)
        watch = self.watch(child, actor, marks=journal.end) if self.watches else None
        return self.adopt(RemoteSink(self, actor, child, journal=journal, watch=watch), generation=generation)

    def lines_of_children(self) -> tuple[str, ...]:
        """What processes that attempts have forked have executed of the sink's own code, as points."""
        return self.of_children.points() if self.of_children is not None else ()

    def close(self) -> None:
        super().close()
        if self.of_children is not None:
            self.of_children.close()
            self.of_children = None

    def retire(self, sink: Sink) -> None:
        """Before it exits, what the sink has left for the end of its process runs: faults strike there, too."""
        assert isinstance(sink, RemoteSink)
        if sink in self.living:
            with suppress(SinkError, AttemptEnded):
                sink.call("exit")
        super().retire(sink)

    def vacate(self, sink: Sink) -> None:
        """Drops its sink object; the next attempt of this actor finds the same process, with its modules' globals."""
        assert isinstance(sink, RemoteSink)
        with suppress(SinkError, AttemptEnded):
            sink.call("leave")
        self.vacant[sink.actor] = sink


class RemoteSink(WatchedAttempt):
    """A sink in another process; the engine uses it like one in its own process."""

    host: ProcessHost

    def __init__(
        self,
        host: ProcessHost,
        actor: str,
        child: ChildProcess,
        *,
        journal: JournalReader,
        watch: SystemCallWatch | None,
    ) -> None:
        super().__init__(host, actor, child, replies=child.channel.fileno(), watch=watch)
        self.journal = journal
        self.is_listening = False  # in the call in progress, for what it injects after a fault at a system call
        self.line = ""  # of the sink's own code, as a point: the last one that was passed
        self.passed: Counter[str] = Counter()
        self.clock: Callable[[], float] = lambda: 0.0
        self.shown = 0.0

    def release(self) -> None:
        self.end_watch()
        self.journal.close()
        super().release()

    # -- the sink protocol ------------------------------------------------------------------------

    def open(self, context: Context) -> list[int]:
        self.clock = context.clock
        fields_sent = {name: getattr(context, name) for name in FIELDS_SENT}
        in_doubt: list[int] = self.call("open", fields_sent, context.random.getstate())
        self.host.look_for_handlers(self)
        return in_doubt

    def write(self, batch: Batch) -> None:
        self.call("write", [tuple(row) for row in batch])

    def snapshot(self, checkpoint_id: int) -> bytes:
        state: bytes = self.call("snapshot", checkpoint_id)
        return state

    def notify_complete(self, checkpoint_id: int) -> list[int]:
        unsettled: list[int] = self.call("notify_complete", checkpoint_id)
        return unsettled

    def notify_aborted(self, checkpoint_id: int) -> None:
        self.call("notify_aborted", checkpoint_id)

    def settle(self, now: float) -> list[int]:
        unsettled: list[int] = self.call("settle", now)
        return unsettled

    def end_of_input(self) -> None:
        self.call("end_of_input")

    def close(self) -> None:
        self.host.look_for_handlers(self)
        self.host.imported.update(dict.fromkeys(self.call("close") or ()))

    # -- one request, one reply -------------------------------------------------------------------

    @within_window
    def call(self, name: str, *arguments: Any) -> Any:
        order = self._arm()
        self.is_listening = order == LISTEN
        point = self._point_then() if self.is_listening else order[0] if order is not None else ""
        lines = self.host.trace_lines or is_line(point)
        self.shown = self.clock()
        request = pickle.dumps((name, arguments, order, self.shown, lines))
        try:
            self.child.send(request, Deadline(self.host.hang_seconds))
        except NoReply as silence:
            self.handle_silence(silence)
        while True:
            reply = self._receive()
            if reply[0] != "injected":
                break
            self._go_on()  # an error was injected; the attempt waits for its next fault
        self.is_listening = False
        return reply[1] if reply[0] == "ok" else self._raise(*reply[1:])

    def _receive(self) -> tuple[Any, ...]:
        """The next reply. Returns after a suspension; raises after a death."""
        message = self.await_reply(self.child.receive)
        self._read_journal()
        return self._understand(message)

    def _understand(self, message: bytes) -> tuple[Any, ...]:
        try:
            reply = _PlainValues(io.BytesIO(message)).load()
            if reply[0] in ("ok", "error", "injected"):
                return tuple(reply)
        except (pickle.UnpicklingError, EOFError, TypeError, ValueError, LookupError, AttributeError, ImportError):
            pass
        return self.fail(AttemptEnding.GARBAGE, evidence=f"a reply that cannot be read: {message[:200]!r}")

    def _raise(self, reaction: str, type_name: str, message: str) -> NoReturn:
        match reaction:
            case "fenced":
                raise Fenced(message)
            case "lost":
                raise TransactionLost(message)
            case "memory":
                self.fail(AttemptEnding.OUT_OF_MEMORY, evidence="MemoryError")
            case _:
                raise SinkError(type_name, message)

    # -- faults -----------------------------------------------------------------------------------

    def _arm(self) -> Armed | None:
        """(point, occurrence over the whole run, fault kind), for the attempt's process. A thread of the sink may reach
        the point meanwhile.
        """
        armed = self.host.overseer.armed(self.actor)
        if armed is not None and is_system_call(armed[0]):
            self.arm_watch()
            return LISTEN if self._point_then() else None
        # None left: a thread of the sink has reached the point, and the process is about to die.
        self.armed = armed if armed is not None and (armed[1] > 0 or armed[2] in DEADLY) else None
        return self.armed and (self.armed[0], self.passed[self.armed[0]] + self.armed[1], self.armed[2])

    def _point_then(self) -> str:
        """That of the fault after one at a system call, if the attempt injects it."""
        point = self.host.overseer.then(self.actor)
        return "" if is_system_call(point) else point

    def arm_next(self) -> None:
        order = self._arm()
        if self.is_listening:
            self._send_order(order)

    def _read_journal(self) -> int:
        """Reports new points to the overseer. Returns how often the armed point is still to be reached."""
        if self.journal.descriptor < 0:
            return 1  # released long ago
        if self.host.on_reply is not None:
            self.host.on_reply(self.shown)
        calls = self.watch.take_calls() if self.watch is not None else ()
        self.note_what_was_missed()
        before = [self._call_among_points(call) for call in calls]
        points = self.journal.new_points()
        self.host.struck_line, self.journal.struck = self.journal.struck or self.host.struck_line, ""
        self.passed.update(points)
        points = [*(point for some in before for point in some), *points]
        left = 1
        if self.armed is not None:
            point, left, kind = self.armed
            left -= points.count(point)
            self.armed = (point, left, kind)
            self.is_ending |= left <= 0 and kind in CALLS_LEFT
            if left <= 0 and is_system_call(point):
                self.host.struck_line = self.line
        if calls:
            self.line = next(filter(is_line, reversed(points)), self.line)
        if points:
            self.host.overseer.passed(self.actor, points)
        return left

    def report_points(self) -> None:
        self._read_journal()

    def _call_among_points(self, call: PassedCall) -> list[str]:
        """The points before it, and its own."""
        points = self.journal.points_up_to(call.mark)
        self.passed.update(points)
        self.line = next(filter(is_line, reversed(points)), self.line)
        self.host.note_call(self.actor, call, is_apart=call.thread != self.pid)
        return [*points, call.point]

    def handle_silence(self, silence: NoReply) -> None:
        strike = self.take_strike()
        if strike is not None:
            self._read_journal()
            self.react(strike)
            return
        kind = self.armed[2] if self.armed is not None else ""
        reached = self._read_journal() <= 0
        if silence.silence is Silence.STOPPED and reached and kind in SUSPENDING:
            self.suspend()
            return
        status = self.child.wait_status
        if silence.silence is Silence.ENDED and reached and kind in DEADLY and status is not None:
            self.died_at_its_point(status)
        self.end_if_asked_to(silence)
        self.fail_silent(silence)

    def may_yet_answer(self, sent: float) -> bool:
        """Another thread may have got SIGTERM at its point."""
        self._read_journal()
        return super().may_yet_answer(sent)

    def terminate(self, calls: int) -> None:
        self.call("terminate", calls)

    def resume_here(self) -> None:
        if self.child.stopped:
            self._go_on()
            self.child.resume()
        else:
            self.let_go_on()

    def _go_on(self) -> None:
        self._send_order(self._arm())

    def _send_order(self, order: Armed | None) -> None:
        gives_way, self.is_waited_for = self.is_waited_for, False
        self.is_listening = order == LISTEN
        try:
            self.child.send(ORDER + pickle.dumps((order, gives_way)), Deadline(self.host.hang_seconds))
        except NoReply as silence:
            self.handle_silence(silence)


class _PlainValues(pickle.Unpickler):
    """Refuses classes in replies: a faulty attempt must not execute code in the engine's process."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"a reply names {module_name}.{global_name}")
