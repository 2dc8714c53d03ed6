"""A sink as a command: JSON lines in, JSON lines out, and everything that a command can get wrong."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.reference_engine.shells.process.attempt_endings import AttemptEnded, AttemptEnding, SinkError
from sinkproof.reference_engine.shells.process.command_host import CommandHost, CommandSink, ReaderFailed, read_command
from sinkproof.sink_adapters.protocol import Batch, Context, Fenced, Row, Sink, TransactionLost

ROWS = tuple(Row(0, offset, "k", "wört\n") for offset in range(3))

# Rows go into one file per checkpoint: pending when it is snapshotted, committed when it is complete.
SINK = r"""
import base64, json, os, sys
folder = os.environ["SINKPROOF_SCRATCH"]
rows = []
def commit(name):
    if os.path.exists(f"{folder}/{name}.pending"):
        os.rename(f"{folder}/{name}.pending", f"{folder}/{name}.committed")
for line in sys.stdin:
    request = json.loads(line)
    reply = {"ok": True}
    match request["call"]:
        case "open":
            for state in request["restored"]:
                commit(base64.b64decode(state["state"]).decode())
        case "write":
            rows += [[row["split"], row["offset"]] for row in request["rows"]]
        case "snapshot":
            name = f"{request['checkpoint_id']}-{os.environ['SINKPROOF_SUBTASK']}"
            with open(f"{folder}/{name}.pending", "w") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            rows = []
            reply["state"] = base64.b64encode(name.encode()).decode()
        case "notify_complete":
            commit(f"{request['checkpoint_id']}-{os.environ['SINKPROOF_SUBTASK']}")
        case "settle":
            reply["unsettled"] = [int(request["now"])]
        case "close":
            pass
        case _:
            reply = {"error": {"type": "unsupported"}}
    print(json.dumps(reply), flush=True)
"""
READER = "for file in Path(os.environ['SINKPROOF_SCRATCH']).glob('*.committed'): print(file.read_text(), end='')"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


def python(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


def shell(program: str) -> list[str]:
    return ["sh", "-c", program]


def after_reading(program: str) -> list[str]:
    """A command that does this with its second request; the first is answered well."""
    return shell(f"read line; echo '{{\"ok\": true}}'; read line; {program}")


def spawn(host: CommandHost, *, generation: int = 1, **fields: object) -> CommandSink:
    sink = host.spawn("sink[1]", 1, generation)
    context = Context(generation=generation, subtask=1, clock=lambda: 2.0, random=Random(1))
    sink.open(replace(context, **fields))  # type: ignore[arg-type]
    return sink


def test_a_command_is_a_sink_and_another_takes_over_from_its_bytes(server: ForkServer, tmp_path: Path) -> None:
    with CommandHost(server, python(SINK), tmp_path) as host:
        sink = spawn(host)
        assert isinstance(sink, Sink)
        sink.write(Batch(ROWS))
        state = sink.snapshot(7)
        assert b"7-1" == state
        host.kill(sink)
        assert (False, signal.SIGKILL, 1) == (sink.alive, sink.wait_status, host.kills)
        assert [] == read(tmp_path)
        newer = spawn(host, generation=2, checkpoint_id_restored=7, restored=[(1, state)])
        assert [(0, 0), (0, 1), (0, 2)] == read(tmp_path)
        newer.write(Batch([Row(1, 5, "k", "v")]))
        newer.snapshot(8)
        assert [] == newer.notify_complete(8)
        assert [(0, 0), (0, 1), (0, 2), (1, 5)] == read(tmp_path)
        newer.end_of_input()
        newer.notify_aborted(9)
        assert [2] == newer.settle(2.5)
        newer.close()
        host.retire(newer)
    assert (False, 1) == (newer.alive, host.kills)


def read(scratch: Path) -> list[tuple[int, int]]:
    program = f"import os; from pathlib import Path\n{READER}"
    return sorted(read_command(python(program), scratch, seconds=20))


@pytest.mark.parametrize(
    ("command", "ending", "evidence"),
    [
        (after_reading("echo not json"), AttemptEnding.GARBAGE, "its reply to write is none: b'not json'"),
        (after_reading("echo [1]"), AttemptEnding.GARBAGE, "b'[1]'"),
        (after_reading("exec >&-; read more; exec sleep 100"), AttemptEnding.GARBAGE, "closed its channel"),
        (after_reading("head -c 100000000 /dev/zero"), AttemptEnding.GARBAGE, "a line of more than"),
        (after_reading("echo dying >&2; exit 3"), AttemptEnding.EXITED, "dying"),
        (after_reading("kill -SEGV $$"), AttemptEnding.SIGNALLED, "SIGSEGV"),
        (after_reading("read more"), AttemptEnding.HUNG, "no reply within 1 s"),
        (after_reading("kill -STOP $$"), AttemptEnding.STOPPED, "SIGKILL"),
        (shell("echo welcome; read line; echo '{\"ok\": true}'; read line"), AttemptEnding.GARBAGE, "b'welcome"),
        (
            shell('read line; printf \'{"ok": true}\\n{"ok": true}\\n\'; read line'),
            AttemptEnding.GARBAGE,
            "it wrote without a request",
        ),
        (["./there-is-no-such-program"], AttemptEnding.EXITED, "cannot run ./there-is-no-such-program"),
    ],
)
def test_a_command_that_goes_wrong_says_how(
    server: ForkServer, tmp_path: Path, command: list[str], ending: AttemptEnding, evidence: str
) -> None:
    hang_seconds = 1.0 if ending is AttemptEnding.HUNG else 60.0
    with CommandHost(server, command, tmp_path) as host:
        host.hang_seconds = hang_seconds
        with pytest.raises(AttemptEnded) as raised:
            spawn(host).write(Batch(ROWS))
        assert ending is raised.value.ending
        assert evidence in str(raised.value)
        assert 0 == host.kills


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        ('{"error": {"type": "fenced", "message": "newer"}}', Fenced, "newer"),
        ('{"error": {"type": "transaction-lost"}}', TransactionLost, ""),
        ('{"error": {"type": "disk full", "message": "no room"}}', SinkError, "disk full: no room"),
        ('{"error": "just a text"}', SinkError, "error: just a text"),
        ('{"error": {"type": "unsupported"}}', SinkError, "unsupported: "),
    ],
)
def test_an_error_reply_becomes_the_exception_that_it_names(
    server: ForkServer, tmp_path: Path, reply: str, kind: type[Exception], text: str
) -> None:
    program = after_reading(f"echo {shlex.quote(reply)}; read line; echo '{{\"ok\": true}}'; read line")
    with CommandHost(server, program, tmp_path) as host:
        sink = spawn(host)
        with pytest.raises(kind) as raised:
            sink.write(Batch(ROWS))
        assert text == str(raised.value)
        sink.end_of_input()
        assert sink.alive


@pytest.mark.parametrize("reply", ['{"ok": true}', '{"ok": true, "state": "?"}', '{"ok": true, "state": 5}'])
def test_a_snapshot_without_bytes_is_garbage(server: ForkServer, tmp_path: Path, reply: str) -> None:
    with CommandHost(server, after_reading(f"echo {shlex.quote(reply)}; read line"), tmp_path) as host:
        sink = spawn(host)
        with pytest.raises(AttemptEnded, match='no "state" in base64'):
            sink.snapshot(1)


def test_what_a_command_started_dies_with_it(server: ForkServer, tmp_path: Path) -> None:
    program = after_reading('setsid sleep 1000 & echo $! > "$SINKPROOF_SCRATCH/pid"; echo \'{"ok": true}\'; read line')
    with CommandHost(server, program, tmp_path) as host:
        sink = spawn(host)
        sink.write(Batch(ROWS))
        descendant = os.pidfd_open(int((tmp_path / "pid").read_text()))
        host.kill(sink)
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(descendant, 0)
        os.close(descendant)


def test_runs_leave_no_descriptor_open(server: ForkServer, tmp_path: Path) -> None:
    gc.collect()  # what other tests have left must not be closed, or opened again, in between
    with CommandHost(server, python(SINK), tmp_path) as host:
        host.kill(spawn(host))  # opens what all of them share
        before = len(os.listdir("/proc/self/fd"))
        host.kill(spawn(host))
        host.retire(spawn(host))
        host.close()
        assert before == len(os.listdir("/proc/self/fd"))


def test_a_reader_may_print_lists_or_objects(tmp_path: Path) -> None:
    program = """echo '[0, 1]'; echo; echo '{"value": "b", "split": 2, "more": null, "offset": 3, "key": "a"}'
        echo '[4, 5, "c", "d", 6]'"""
    assert [(0, 1), (2, 3, "a", "b"), (4, 5, "c", "d", 6)] == read_command(shell(program), tmp_path, seconds=20)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (shell("echo 0,1"), "printed a line that is no [split, offset] or [split, offset, key, value]: '0,1'"),
        (shell("echo '[0, 1.5]'"), "printed a line that is no [split, offset]"),
        (shell("echo '{\"split\": 1}'"), "printed a line that is no [split, offset]"),
        (shell("echo oh no >&2; exit 4"), "failed with status 4: oh no"),
        (shell("echo waiting >&2; sleep 1000"), "did not end within 0.2 s: waiting"),
        (["./there-is-no-such-program"], "cannot be run"),
    ],
)
def test_a_reader_that_goes_wrong_says_how(tmp_path: Path, reader: list[str], text: str) -> None:
    with pytest.raises(ReaderFailed) as raised:
        read_command(reader, tmp_path, seconds=0.2 if "sleep" in reader[-1] else 20)
    assert text in str(raised.value)
