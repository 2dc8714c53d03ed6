"""The code inside the process of an attempt, from its first request to its death; process_host.py is the other end.

The process injects the fault that is armed for a request itself: at its point, on the stack of the sink's own code, so
that nothing (no `finally`, no buffer) runs after it. The journal holds the points that were reached, independently of
the replies.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from errno import EIO
from pathlib import Path
from random import Random
from typing import Any, Final

from sinkproof.chaos.client_calls import client_calls
from sinkproof.chaos.error_text import message_of
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.terminate_attempt import CALLS_LEFT
from sinkproof.chaos.lines import LineTracer, file_points, line_on_stack
from sinkproof.chaos.processes import recorded_inputs
from sinkproof.chaos.processes.child_channel import EXIT_OUT_OF_MEMORY, Inside, resolve
from sinkproof.chaos.processes.process_wide_state import (
    end_as_the_interpreter,
    end_orderly,
    in_c,
    spare_inherited_finalizers,
    stay_in_subjects_state,
)
from sinkproof.chaos.program_points import program_points
from sinkproof.chaos.requests.socket_points import RAISED_AT_CALLS, socket_points
from sinkproof.chaos.shared.lines_of_children import marking
from sinkproof.chaos.shared.point_journal import Journal
from sinkproof.chaos.sqlite_points import sqlite_points
from sinkproof.chaos.system_calls.seccomp_filter import put_on
from sinkproof.chaos.wall_clock import WallClock
from sinkproof.reference_engine.shells.process.thread_pace import PACES, GivesWay, ThreadPace
from sinkproof.sink_adapters.protocol import Batch, Context, Fenced, Row, TransactionLost, left_in_doubt, unsettled_ids

INJECTED: Final = "injected: the target did not answer"
OUT_OF_MEMORY: Final = pickle.dumps(("error", "memory", "MemoryError", ""))  # ready-made: there is none left for it
SUSPENDING: Final = tuple(word for word, kind in KINDS.items() if kind.suspends)  # an attempt stops itself for them
INJECTED_REPLY: Final = pickle.dumps(("injected",))
DEADLY: Final = ("kill", "kill-job")
LISTEN: Final = ("", 0, "listen")  # in a call, after a fault at a system call, for the one that is armed next
ORDER: Final = b"order: "  # begins a message that is no request: which fault is armed next


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How another process makes the sink: `maker` ("module:function") is called with the arguments and clock=..."""

    maker: str
    arguments: Sequence[Any] = ()
    wall_clock: WallClock | None = None  # None: the machine's
    thread_pace: str = ""  # one of PACES; "": as fast as they are
    contained: bool = False  # the sink's own code sees the process id of a container's first
    lists_by_hash: bool = False  # os.listdir and os.scandir
    receives_in_pieces: bool = False
    shared: str = ""  # the folder that all hosts see, of an attempt that is on a host of its own; "": it is not


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCode:
    """Which code and which files have points in an attempt, besides those that it reaches by name."""

    files: Mapping[str, str] = field(default_factory=dict)  # the sink's own code: absolute path -> name in points
    folder: str = ""  # file effects below it are points; "": none are
    sockets: bool = False  # what is sent over TCP is a point
    reads: bool = False  # so is each read of a file in the folder
    programs: bool = False  # so is the start of each program, and its input
    clients: bool = False  # calls into clients of external systems are points
    calls_below: str = ""  # system calls that change this folder are points; "": none is watched


def live(inside: Inside, recipe: Recipe, watched: WatchedCode) -> None:
    """The entry of the process: one request, one reply, until the connection ends."""
    stay_in_subjects_state()
    spare_inherited_finalizers()
    attempt, pid = _Inner(inside, recipe, watched), os.getpid()
    if watched.calls_below:
        put_on(inside.channel)  # one thread, and no code of the sink yet: everything that follows has the filter
    with attempt.watching_files(), attempt.ending_as_asked(pid):
        while (request := inside.receive()) is not None:
            if request.startswith(ORDER):
                continue  # for a call that is over
            reply = attempt.answer(request)
            if os.getpid() != pid:
                os._exit(0)  # the sink forked, and this is its child: it must not answer, too
            inside.send(reply)


class _Inner:
    """The attempt itself, inside its process."""

    def __init__(self, inside: Inside, recipe: Recipe, watched: WatchedCode) -> None:
        self.inside, self.recipe, self.watched = inside, recipe, watched
        self.journal = Journal(
            inside.descriptors[0], of_children=marking(inside.descriptors[1:], watched.files.values())
        )
        self.tracer = LineTracer(watched.files, threads=True)
        self.main_thread = threading.get_ident()
        self.for_life = ExitStack()
        self.answers, self.is_called = 0, False
        self.found_imported = modules_loaded()
        self.pace_for_life = PACES[recipe.thread_pace](self) if recipe.thread_pace else None
        self.pace: ThreadPace | None = self.pace_for_life
        self.sink: Any = None
        self.now = 0.0
        self.wall_clock: Any = None  # MovedClock
        self.passed: dict[str, int] = {}
        self.point, self.time, self.kind = "", 0, ""
        self.last_answer: int | None = None  # after SIGTERM: then it is killed, if it has not ended by itself
        self.traces_lines = False
        os.register_at_fork(after_in_child=lambda: self.arm(None))

    # -- points -----------------------------------------------------------------------------------

    def reach(self, point: str) -> None:
        if self.pace is not None:
            self.pace.pass_by(point)
        if self.kind == LISTEN[2] and threading.get_ident() == self.main_thread and self.inside.has_more():
            self.rearm()
        self.journal.write(point)
        self.passed[point] = times = self.passed.get(point, 0) + 1
        if point == self.point and times == self.time:
            self.inject()

    def arm(self, armed: tuple[str, int, str] | None) -> None:
        """`armed`: a point, its occurrence counted over the whole run, the kind of fault."""
        self.point, self.time, self.kind = armed or ("", 0, "")
        if self.kind in DEADLY and self.passed.get(self.point, 0) >= self.time:
            self.inject()  # a thread has reached the point while the request was on its way

    def inject(self) -> None:
        self.journal.write_struck(line_on_stack(self.watched.files))
        failing = RAISED_AT_CALLS.get(self.kind)
        if failing is not None:
            if threading.get_ident() == self.main_thread:  # another thread must not send in between
                self.inside.send(INJECTED_REPLY)
                self.rearm()
            raise failing(EIO, INJECTED)
        if self.kind in SUSPENDING:
            os.kill(os.getpid(), signal.SIGSTOP)
            # It was continued. Another thread must not read what the thread of the calls waits for.
            self.rearm() if threading.get_ident() == self.main_thread else self.arm(LISTEN)
        elif self.kind in CALLS_LEFT:
            calls = CALLS_LEFT[self.kind]
            if threading.get_ident() == self.main_thread:
                self.inside.send(INJECTED_REPLY)
                self.rearm()
            self.ask_to_end(calls)
        else:
            die()

    def ask_to_end(self, calls: int) -> None:
        """SIGTERM, by which Python calls the handler here, or in the thread of the calls if this is another one. It may
        raise. Where it returns, the attempt goes on until it has answered this call and so many more.
        """
        self.last_answer = self.answers + 1 + calls
        if not is_handled(signal.SIGTERM):
            die()
        sys.call_tracing(os.kill, (os.getpid(), signal.SIGTERM))  # lines of the handler are points, too
        if not calls and threading.get_ident() == self.main_thread:
            die()

    @contextmanager
    def ending_as_asked(self, pid: int) -> Iterator[None]:
        """What is raised after SIGTERM ends the process as it does a program: `finally`, threads, functions for the end
        run. Then it is killed.
        """
        try:
            yield
        except BaseException as error:
            if self.last_answer is None or os.getpid() != pid:
                raise
            if not isinstance(error, SystemExit):
                traceback.print_exc()
            with self.watching(self.traces_lines):
                end_as_the_interpreter()
            die()

    def rearm(self) -> None:
        """The attempt goes on after a fault: the next one may be injected within the same call."""
        message = self.inside.receive()
        if message is None:
            os._exit(0)
        armed, gives_way = pickle.loads(message.removeprefix(ORDER))
        self.arm(armed)
        if gives_way:
            self.pace = GivesWay(self)

    @contextmanager
    def watching_files(self) -> Iterator[None]:
        """For the whole life of the attempt: a thread runs between two calls, too."""
        if not self.watched.folder:
            yield
            return
        folder = Path(self.watched.folder)
        reads, in_pieces = self.watched.reads, self.recipe.receives_in_pieces
        sent = socket_points(self.reach, in_pieces=in_pieces) if self.watched.sockets else nullcontext()
        programs = program_points(self.reach) if self.watched.programs else nullcontext()
        tables = sqlite_points(folder, self.reach, files=self.watched.files, reads=reads)
        with file_points(folder, self.reach, reads=reads), tables, sent, programs:
            yield

    def watching(self, lines: bool) -> AbstractContextManager[None]:
        """Threads that are held are held between two calls, too."""
        if lines and self.pace_for_life is not None and not self.tracer.is_on:
            self.for_life.enter_context(self.tracer(self.reach))
        return self.tracer(self.reach) if lines and not self.tracer.is_on else nullcontext()

    def watching_clients(self) -> AbstractContextManager[None]:
        return client_calls(self.reach) if self.watched.clients else nullcontext()

    # -- calls ------------------------------------------------------------------------------------

    def answer(self, request: bytes) -> bytes:
        self.is_called = True
        if self.last_answer is not None and self.answers >= self.last_answer:
            die()
        try:
            call, arguments, armed, self.now, lines = pickle.loads(request)
            self.traces_lines = lines
            self.arm(armed)
            if self.recipe.wall_clock is not None:
                self.show_time(self.recipe.wall_clock)
            action: Callable[..., Any] = getattr(self, "do_" + call, self.do_any)
            with self.watching(lines), self.watching_clients():
                value = action(call, *arguments)
            return pickle.dumps(("ok", plain(call, value)))
        except MemoryError:
            return OUT_OF_MEMORY
        except SystemExit:
            raise
        except BaseException as error:  # the border: a sink's failure becomes a reply, and the engine reacts
            if self.last_answer is not None:
                raise
            return _failure_reply(error)
        finally:
            self.answers += 1
            self.is_called = False
            self.pace = self.pace_for_life
            if self.kind in SUSPENDING:  # a resumed attempt receives its next fault with a call
                self.arm(None)

    def do_open(self, call: str, fields: dict[str, Any], random_state: Any) -> Any:
        self.see_another_machine(fields["subtask"], fields["generation"])
        self.sink = resolve(self.recipe.maker)(*self.recipe.arguments, clock=self.clock)
        random = Random(0)
        random.setstate(random_state)
        return self.sink.open(Context(**fields, clock=self.clock, random=random, reach=self.reach))

    def see_another_machine(self, subtask: int, generation: int) -> None:
        if self.recipe.contained or self.recipe.shared or self.recipe.lists_by_hash:
            from sinkproof.chaos.processes.seen_machine import be_in_a_container, be_on_a_host, list_by_hash

            if self.recipe.lists_by_hash:
                list_by_hash()
            if self.recipe.contained:
                be_in_a_container(self.watched.files)
            if self.recipe.shared:
                be_on_a_host(subtask, generation, self.watched.files, shared=Path(self.recipe.shared))

    def do_leave(self, call: str) -> None:
        """Releases the sink; another one is made in this process."""
        self.sink = None
        gc.collect()

    def do_close(self, call: str) -> list[str]:
        """The modules that this attempt has imported, so that later ones can find them."""
        self.do_any(call)
        if modules_loaded() == self.found_imported:
            return []
        recorded_inputs.note_loaded()
        return list(sys.modules)[self.found_imported[0] :]

    def do_terminate(self, call: str, calls: int) -> None:
        self.ask_to_end(calls)

    def do_exit(self, call: str) -> None:
        """The process ends in an orderly way: destructors, finalizers and functions for its end run."""
        self.sink = None
        end_orderly()

    def do_write(self, call: str, rows: list[tuple[Any, ...]]) -> None:
        self.sink.write(Batch(map(Row._make, rows)))

    def do_any(self, call: str, *arguments: Any) -> Any:
        """A call that the sink lacks does nothing: the last four of the protocol may be missing."""
        method = getattr(self.sink, call, None)
        return None if method is None else method(*arguments)

    def clock(self) -> float:
        return self.now

    def show_time(self, clock: WallClock) -> None:
        if self.wall_clock is None:
            from sinkproof.chaos.moved_clock import MovedClock

            self.wall_clock = MovedClock(clock, self.now, for_life=True)
        self.wall_clock.show(self.now)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_handled(number: int) -> bool:
    """Whether this signal leads to more than a death: a thread may wait for it while it is blocked."""
    return in_c.getsignal(number) != in_c.SIG_DFL or number in in_c.pthread_sigmask(in_c.SIG_BLOCK, ())


def modules_loaded() -> tuple[int, str]:
    """Their number, and the last one: another one has been imported since if either is different. A set of all names
    would copy 200 pages of memory in each attempt.
    """
    return len(sys.modules), next(reversed(sys.modules))


def plain(call: str, value: Any) -> Any:
    """A reply made of nothing but plain values, or a TypeError: the engine unpickles no class of a sink."""
    if call == "snapshot":
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"snapshot() returned {type(value).__name__}, not bytes")
        return bytes(value)
    if call == "close":
        return value
    if call == "open":
        return list(map(int, left_in_doubt(value)))
    return unsettled_ids(call, value) if call in ("notify_complete", "settle") else None


def _failure_reply(error: BaseException) -> bytes:
    reaction = "fenced" if isinstance(error, Fenced) else "lost" if isinstance(error, TransactionLost) else "other"
    try:
        message = message_of(error)
    except MemoryError:
        os._exit(EXIT_OUT_OF_MEMORY)
    return pickle.dumps(("error", reaction, type(error).__name__, message))
