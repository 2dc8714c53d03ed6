"""Entry points of the processes that tests start, a small right sink, and sinks that misbehave."""

from __future__ import annotations

import atexit
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import finalize

from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.shared.point_journal import Journal
from sinkproof.reference_engine.shells.process.attempt_child import Recipe, WatchedCode, _Inner
from sinkproof.sink_adapters.protocol import Batch, Context, Fenced, TransactionLost


def echo(inside: Inside) -> None:
    while (message := inside.receive()) is not None:
        inside.send(message)


def returns(inside: Inside, value: object) -> None:
    inside.send(repr(value).encode())


def raises(inside: Inside) -> None:
    raise ValueError("the entry raised")


def exits(inside: Inside, status: int) -> None:
    sys.exit(status)


def kills_itself_after_a_reply(inside: Inside) -> None:
    inside.send(b"last words")
    os.kill(os.getpid(), signal.SIGKILL)


def stops_itself(inside: Inside) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    inside.send(b"continued")


def prints(inside: Inside, text: str, times: int) -> None:
    for _ in range(times):
        print(text)
    inside.send(b"printed")
    inside.receive()


def closes_its_channel(inside: Inside) -> None:
    inside.channel.close()
    signal.pause()


def sends_nonsense(inside: Inside) -> None:
    inside.channel.sendall(b"\xff" * 1000)
    signal.pause()


def reports_its_descriptors(inside: Inside) -> None:
    names = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            names[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    inside.send(json.dumps(names).encode())


def eats_memory(inside: Inside) -> None:
    eaten = []
    while True:
        eaten.append(bytearray(1 << 20))


def has_descendants(inside: Inside) -> None:
    """One in its group, one in a session of its own, one that is a daemon (its parent has exited)."""
    pids = [fork_and_wait(lambda: None), fork_and_wait(os.setsid), *daemon()]
    inside.send(json.dumps(pids).encode())
    signal.pause()


def has_reader(inside: Inside, note: str) -> None:
    """It reads from a pipe, and notes its end."""
    there, here = os.pipe()
    if os.fork() == 0:
        os.close(here)
        os.read(there, 1)
        Path(note).touch()
        os._exit(0)
    inside.send(b"reads")
    signal.pause()


def fork_and_wait(first: Callable[[], object]) -> int:
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        first()
        os.write(done, b"1")
        signal.pause()
    os.read(ready, 1)
    return pid


def daemon() -> list[int]:
    there, here = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(here, str(fork_and_wait(os.setsid)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return [int(os.read(there, 20))]


def writes_a_journal(inside: Inside, points: int) -> None:
    journal = Journal(inside.descriptors[0])
    for number in range(points):
        journal.write(f"point.{number}")
    if os.fork() == 0:
        journal.write("point.of.another.process")
        os._exit(0)
    os.wait()
    os.kill(os.getpid(), signal.SIGKILL)


# -- a sink that is right -------------------------------------------------------------------------


def make_file_sink(folder: str, *, clock: Callable[[], float]) -> FileSink:
    return FileSink(Path(folder), clock)


def make_sink_that_says_goodbye(folder: str, *, clock: Callable[[], float]) -> FileSink:
    return SaysGoodbye(Path(folder), clock)


class FileSink:
    """Rows go into an open file, which a snapshot renames to pending and a completion to committed."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.folder, self.clock = folder, clock
        self.rows: list[str] = []

    def open(self, context: Context) -> None:
        self.context = context
        for _, state in context.restored:
            for name in json.loads(state):
                self.commit(name)
        for path in self.folder.glob(f"*.{context.subtask}.pending"):
            context.reach("abort.before")
            path.unlink()

    def write(self, batch: Batch) -> None:
        self.rows += [f"{row.split},{row.offset}" for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        name = f"{checkpoint_id}.{self.context.subtask}"
        self.context.reach("pre_commit.before")
        self.folder.joinpath(name + ".pending").write_text("\n".join(self.rows))
        self.context.reach("pre_commit.after")
        self.rows = []
        return json.dumps([name]).encode()

    def notify_complete(self, checkpoint_id: int) -> None:
        self.commit(f"{checkpoint_id}.{self.context.subtask}")

    def commit(self, name: str) -> None:
        self.context.reach("commit.before")
        pending = self.folder / (name + ".pending")
        if pending.exists():
            pending.rename(self.folder / (name + ".committed"))
        self.context.reach("commit.after")


# -- sinks that misbehave -------------------------------------------------------------------------


def make_bad_sink(behaviour: str, *, clock: Callable[[], float]) -> BadSink:
    return BadSink(behaviour, clock)


class BadSink:
    """`write` does what `behaviour` names; optional calls are missing."""

    def __init__(self, behaviour: str, clock: Callable[[], float]) -> None:
        self.behaviour, self.clock = behaviour, clock

    def open(self, context: Context) -> None:
        self.context = context

    def write(self, batch: Batch) -> None:
        getattr(self, self.behaviour)()

    def snapshot(self, checkpoint_id: int) -> Any:
        if self.behaviour == "no_bytes":
            return "no bytes"
        return repr((self.clock(), self.context.random.random())).encode()

    def notify_complete(self, checkpoint_id: int) -> Any:
        return {checkpoint_id: "unsettled"}

    def no_bytes(self) -> None: ...

    def hangs(self) -> None:
        print("about to hang")
        while True:
            signal.pause()

    def exits(self) -> None:
        print("about to exit")
        sys.exit(3)

    def stops(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def aborts(self) -> None:
        os.kill(os.getpid(), signal.SIGABRT)

    def eats_memory(self) -> None:
        eaten = []
        while True:
            eaten.append(bytearray(1 << 20))

    def sends_nonsense(self) -> None:
        for descriptor in range(3, 20):
            if os.path.exists(f"/proc/self/fd/{descriptor}") and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"\0\0\0\4junk")

    def closes_everything(self) -> None:
        os.closerange(3, 1000)

    def forks(self) -> None:
        os.fork()

    def is_fenced(self) -> None:
        raise Fenced("a newer attempt took over")

    def has_lost(self) -> None:
        raise TransactionLost("gone")

    def raises(self) -> None:
        raise KeyError("a key")

    def raises_an_error_without_text(self) -> None:
        raise ErrorWithoutText

    def survives_an_error(self) -> None:
        try:
            self.context.reach("commit.before")
        except OSError as error:
            self.context.reach("abort.before")
            print(error)
        self.context.reach("commit.after")


class ErrorWithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class SaysGoodbye(FileSink):
    """What it leaves for the end of its process, appended to a file."""

    def open(self, context: Context) -> None:
        super().open(context)
        end = self.folder / "of.end"
        atexit.register(append, end, "first")
        atexit.register(unwanted := partial(append, end, "unwanted"))
        atexit.register(append, end, word="second")
        atexit.unregister(unwanted)
        finalize(self, append, end, "finalizer")

    def __del__(self) -> None:
        append(self.folder / "of.end", "destructor")


def append(file: Path, word: str) -> None:
    with file.open("a") as end:
        end.write(f"{word}\n")


def stops_in_a_thread(inside: Inside) -> None:
    """What comes meanwhile is for the thread of the calls."""
    attempt = _Inner(inside, Recipe(maker=""), WatchedCode())
    attempt.arm(("between", 1, "stop"))
    thread = threading.Thread(target=attempt.reach, args=("between",))
    thread.start()
    thread.join()
    inside.send(inside.receive() or b"")
