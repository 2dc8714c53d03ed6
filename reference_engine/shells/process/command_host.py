"""A sink in any language: a command that speaks JSON lines.

The command is started once per attempt, in a session of its own. It reads one request a line from stdin and
writes one reply a line to stdout, and nothing else; what it writes to stderr is shown when it fails. It is
killed by SIGKILL between requests and replies, before it has read a request or after it has replied, and, where
the kernel lets its system calls be watched, before each call that changes a file or sends to a socket, those of its
start included. If it handles SIGTERM, it also gets that between requests and replies, and is killed when it has done
nothing for two seconds, or some requests later. The end of stdin means: exit. Programs with more rights than the
command (sudo, setuid) do not get them. Its environment holds

    SINKPROOF_SCRATCH      the folder it may use; kept over restarts
    SINKPROOF_SUBTASK      which of the parallel subtasks it is, from 0
    SINKPROOF_GENERATION   the fencing token, greater than that of every earlier attempt

Every request has "call" and "now" (seconds of virtual time); those with more:

    {"call": "open", "job_id", "sink_id", "subtask", "parallelism", "parallelism_restored", "generation", "seed",
     "checkpoint_id_restored": 3 or null, "restored": [{"subtask": 0, "state": base64}], "subtasks_restored": [0],
     "deadline": seconds or null}
    {"call": "write", "rows": [{"split": 0, "offset": 7, "key": "a", "value": "b", "event_time_ms": 0}]}
    {"call": "snapshot", "checkpoint_id": 4}               reply: {"ok": true, "state": base64}
    {"call": "notify_complete", "checkpoint_id": 4}        reply: {"ok": true, "unsettled": [4]}, or without "unsettled"
    {"call": "notify_aborted", "checkpoint_id": 5}
    {"call": "settle"}                                     reply: as to notify_complete, as also to open
    {"call": "end_of_input"}
    {"call": "close"}

What each call must have done when its reply is written is said in sinkproof.sink_adapters.protocol.Sink. The
other replies are {"ok": true}, or {"error": {"type": "...", "message": "..."}}. Three types mean something:
"fenced" (a newer generation has taken over), "transaction-lost" (rows of a complete checkpoint are gone), and
"unsupported" for one of the calls that a sink may lack (notify_aborted, settle, end_of_input, close), which
then does nothing.

A reader command prints one row that is visible a line, as [split, offset, key, value] or an object, and
exits with 0.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ChildProcess, ForkServer, NoReply
from sinkproof.chaos.system_calls.supervisor import Record, SystemCallWatch
from sinkproof.chaos.system_calls.watched_program import ENTRY
from sinkproof.reference_engine.shells.process.attempt_endings import AttemptEnding, SinkError
from sinkproof.reference_engine.shells.process.call_windows import within_window
from sinkproof.reference_engine.shells.process.watched_attempt import WatchedAttempt, WatchingHost
from sinkproof.reference_engine.shells.reader_command import ReaderFailed, read_command
from sinkproof.sink_adapters.protocol import OPTIONAL_CALLS, Batch, Context, Fenced, Row, TransactionLost

__all__ = ["CommandHost", "CommandSink", "ReaderFailed", "read_command"]

LINE_BYTES_MOST: Final = 1 << 26  # 64 MiB: a snapshot in base64 and room; a longer line has no end
READ_BYTES: Final = 1 << 16
QUOTED_BYTES: Final = 200


class CommandHost(WatchingHost):
    """Attempts of one command. `scratch`: the folder it may use. It runs in this process's working folder."""

    def __init__(
        self, server: ForkServer, words: Sequence[str], scratch: Path, *, record: Record | None = None
    ) -> None:
        super().__init__(server, scratch, record=record)
        self.words = tuple(words)
        self.elsewhere = {}

    def spawn(self, actor: str, subtask: int, generation: int) -> CommandSink:
        variables = {
            "SINKPROOF_SCRATCH": str(self.scratch.resolve()),
            "SINKPROOF_SUBTASK": str(subtask),
            "SINKPROOF_GENERATION": str(generation),
        }
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        try:
            child = self.server.spawn(
                ENTRY,
                *(self.words, (os.getcwd(), variables)),
                descriptors=[theirs_in, theirs_out],
                limits=self.limits,
            )
            watch = self.watch(child, actor)
        except BaseException:
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        sink = CommandSink(self, actor, child, pipes=(ours_in, ours_out), watch=watch)
        return self.adopt(sink, generation=generation)


class CommandSink(WatchedAttempt):
    """A sink that is a command; the engine uses it like one in its own process."""

    host: CommandHost

    def __init__(
        self,
        host: CommandHost,
        actor: str,
        child: ChildProcess,
        *,
        pipes: tuple[int, int],
        watch: SystemCallWatch | None,
    ) -> None:
        super().__init__(host, actor, child, replies=pipes[0], watch=watch)
        self.pipes = list(pipes)  # we read from the first and write to the second
        self.clock: Callable[[], float] = lambda: 0.0
        self.calls_left = 0  # after SIGTERM
        self._unsent = memoryview(b"")
        self._buffer = bytearray()
        for pipe in pipes:
            os.set_blocking(pipe, False)

    def hang_up(self) -> None:
        self._close_pipe(1)

    def release(self) -> None:
        self._close_pipe(0)
        self._close_pipe(1)
        self.end_watch()
        super().release()

    def _close_pipe(self, which: int) -> None:
        if self.pipes[which] >= 0:
            os.close(self.pipes[which])
            self.pipes[which] = -1

    # -- the sink protocol ------------------------------------------------------------------------

    def open(self, context: Context) -> list[int]:
        self.clock = context.clock
        reply = self.call(
            "open",
            job_id=context.job_id,
            sink_id=context.sink_id,
            subtask=context.subtask,
            parallelism=context.parallelism,
            parallelism_restored=context.parallelism_restored,
            generation=context.generation,
            seed=context.random.getrandbits(53),  # what every language's JSON can hold
            checkpoint_id_restored=context.checkpoint_id_restored,
            restored=[{"subtask": old, "state": _text(state)} for old, state in context.restored],
            subtasks_restored=list(context.subtasks_restored),
            deadline=context.deadline if math.isfinite(context.deadline) else None,
        )
        self.host.look_for_handlers(self)
        return self._unsettled(reply)

    def write(self, batch: Batch) -> None:
        self.call("write", rows=[dict(zip(Row._fields, row, strict=True)) for row in batch])

    def snapshot(self, checkpoint_id: int) -> bytes:
        reply = self.call("snapshot", checkpoint_id=checkpoint_id)
        try:
            return base64.b64decode(reply["state"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            return self.fail(
                AttemptEnding.GARBAGE, evidence=f'the reply to snapshot has no "state" in base64: {_quoted(reply)}'
            )

    def notify_complete(self, checkpoint_id: int) -> list[int]:
        return self._unsettled(self.call("notify_complete", checkpoint_id=checkpoint_id))

    def notify_aborted(self, checkpoint_id: int) -> None:
        self.call("notify_aborted", checkpoint_id=checkpoint_id)

    def settle(self, now: float) -> list[int]:
        return self._unsettled(self.call("settle", now=now))

    def end_of_input(self) -> None:
        self.call("end_of_input")

    def close(self) -> None:
        self.host.look_for_handlers(self)
        self.call("close")

    def _unsettled(self, reply: Mapping[str, Any]) -> list[int]:
        ids = reply.get("unsettled") or []
        if isinstance(ids, list) and all(type(each) is int for each in ids):
            return ids
        return self.fail(AttemptEnding.GARBAGE, evidence=f'"unsettled" is no list of checkpoint ids: {_quoted(reply)}')

    # -- one request, one reply -------------------------------------------------------------------

    @within_window
    def call(self, name: str, **more: Any) -> Mapping[str, Any]:
        if self.is_ending and not self.calls_left:
            self.died_at_its_point(self.child.kill())
        self.calls_left -= self.is_ending
        self.report_points()
        self.arm_watch()
        self._unsent = memoryview(json.dumps({"call": name, "now": self.clock(), **more}).encode() + b"\n")
        if self.alive and (unexpected := bytes(self._buffer) or self._read()):
            self.fail(AttemptEnding.GARBAGE, evidence=f"it wrote without a request: {unexpected[:QUOTED_BYTES]!r}")
        line = self.await_reply(self._exchange)
        self.report_points()
        return self._understand(name, line)

    def _exchange(self, deadline: Deadline) -> bytes:
        """Called again after a fault that the command has survived."""
        while self._unsent:
            self.child.await_ready(self.pipes[1], select.POLLOUT, deadline)
            try:
                self._unsent = self._unsent[os.write(self.pipes[1], self._unsent) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                self.child.await_death(deadline)
        return self._line(deadline)

    def _line(self, deadline: Deadline) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > LINE_BYTES_MOST:
                quoted = bytes(self._buffer[:QUOTED_BYTES])
                self.fail(AttemptEnding.GARBAGE, evidence=f"a line of more than {LINE_BYTES_MOST} bytes: {quoted!r}...")
            self.child.await_ready(self.pipes[0], select.POLLIN, deadline)
            data = self._read()
            if data == b"":
                self.child.await_death(deadline)
            self._buffer += data or b""
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _read(self) -> bytes | None:
        """What is there; None: nothing yet; b"": nothing will come."""
        try:
            return os.read(self.pipes[0], READ_BYTES)
        except BlockingIOError:
            return None

    def _understand(self, name: str, line: bytes) -> Mapping[str, Any]:
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if isinstance(reply, dict) and reply.get("ok") is True:
            return reply
        if not isinstance(reply, dict) or "error" not in reply:
            self.fail(AttemptEnding.GARBAGE, evidence=f"its reply to {name} is none: {line[:QUOTED_BYTES]!r}")
        error = reply["error"] if isinstance(reply["error"], dict) else {"message": reply["error"]}
        kind, message = str(error.get("type", "error")), str(error.get("message", ""))
        match kind:
            case "fenced":
                raise Fenced(message)
            case "transaction-lost":
                raise TransactionLost(message)
            case "unsupported" if name in OPTIONAL_CALLS:
                return {}
        raise SinkError(kind, message)

    # -- faults at outward calls ------------------------------------------------------------------

    def report_points(self) -> None:
        if self.watch is None:
            return
        calls = self.watch.take_calls()
        self.note_what_was_missed()
        for call in calls:
            self.host.note_call(self.actor, call)
        if calls:
            self.host.overseer.passed(self.actor, [call.point for call in calls])

    def handle_silence(self, silence: NoReply) -> None:
        strike = self.take_strike()
        self.report_points()
        if strike is None:
            self.end_if_asked_to(silence)
            self.fail_silent(silence)
        else:
            self.react(strike)

    def resume_here(self) -> None:
        self.let_go_on()

    def terminate(self, calls: int) -> None:
        """It does not say when its handler has returned, so it is given a while, unless it ends."""
        self.calls_left = calls
        self.report_points()
        self.arm_watch()
        self.child.signal(signal.SIGTERM)
        if calls:
            self.await_reply_briefly()
        else:
            self.await_reply(self._line)
            self.died_at_its_point(self.child.kill())


def _text(state: bytes) -> str:
    return base64.b64encode(state).decode()


def _quoted(reply: Mapping[str, Any]) -> str:
    return repr(json.dumps(reply)[:QUOTED_BYTES])
