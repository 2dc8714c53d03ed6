"""Forked processes leave no process behind, and their reported wait statuses are true.

Deadlines only end a test that has failed: no assertion depends on the speed of the machine.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.fork_server import CONTROL_BYTES_MOST, PREFORKED_MOST
from sinkproof.chaos.processes.spawn import (
    EXIT_OUT_OF_MEMORY,
    ChildProcess,
    ForkServer,
    ForkServerError,
    Limits,
    NoReply,
    RepeatedCall,
    Silence,
)
from sinkproof.chaos.shared.point_journal import BYTES_AT_FIRST, JournalReader

HELPER = Path(__file__).parents[1].joinpath("support/attempts_under_test.py")
SECONDS = 300.0


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=[str(HELPER)]) as started:
        yield started


def spawn(server: ForkServer, entry: str, *arguments: object, limits: Limits | None = None) -> ChildProcess:
    return server.spawn(f"{HELPER.stem}:{entry}", *arguments, limits=limits or Limits())


def reply(child: ChildProcess, *, seconds: float = SECONDS) -> bytes:
    return child.receive(Deadline(seconds))


def silence(child: ChildProcess, *, seconds: float = SECONDS) -> NoReply:
    with pytest.raises(NoReply) as raised:
        child.receive(Deadline(seconds))
    return raised.value


def end(child: ChildProcess) -> int:
    status = child.kill()
    child.close()
    return status


def dead(descriptors: list[int], *, seconds: float = SECONDS) -> bool:
    """Whether all these processes (pidfds) are dead by the deadline."""
    deadline = Deadline(seconds)
    return all(select.select([descriptor], [], [], deadline.left)[0] for descriptor in descriptors)


def test_a_child_replies_and_dies_of_sigkill(server: ForkServer) -> None:
    child = spawn(server, "echo")
    for message in (b"", b"hello", b"x" * 3_000_000):
        child.send(message, Deadline(SECONDS))
        assert message == reply(child)
    assert signal.SIGKILL == os.WTERMSIG(child.kill())
    assert not child.alive
    assert Silence.ENDED is silence(child).silence
    with pytest.raises(NoReply):
        child.send(b"x" * 3_000_000, Deadline(SECONDS))
    child.close()


def test_a_message_sent_before_a_death_is_received(server: ForkServer) -> None:
    child = spawn(server, "kills_itself_after_a_reply")
    assert b"last words" == reply(child)
    assert Silence.ENDED is silence(child).silence
    assert child.wait_status == signal.SIGKILL
    child.close()


def test_arguments_of_any_size_are_passed_on(server: ForkServer) -> None:
    child = spawn(server, "returns", b"a" * 1_000_000)
    assert repr(b"a" * 1_000_000).encode() == reply(child)
    end(child)


class UnpickledBy:
    """Becomes the pid of the process that unpickles it."""

    def __reduce__(self) -> tuple[Callable[[], int], tuple[()]]:
        return os.getpid, ()


@pytest.mark.parametrize(("size", "inherited"), [(1, True), (CONTROL_BYTES_MOST, False)])
def test_children_inherit_the_arguments_of_a_repeated_call(server: ForkServer, size: int, inherited: bool) -> None:
    repeated = RepeatedCall(f"{HELPER.stem}:returns", (UnpickledBy(), "a" * size))
    children = [server.spawn(repeated) for _ in range(PREFORKED_MOST + 1)]
    pid, _ = literal_eval(reply(children[-1]).decode())
    assert pid == (server.pid if inherited else children[-1].pid)
    other = server.spawn(RepeatedCall(f"{HELPER.stem}:returns", "another argument"))
    assert b"'another argument'" == reply(other)
    for child in (*children, other):
        end(child)


@pytest.mark.parametrize(("entry", "arguments", "status"), [("raises", (), 70), ("exits", (3,), 3), ("exits", (0,), 0)])
def test_a_child_that_ends_by_itself_has_an_exit_status(
    server: ForkServer, entry: str, arguments: tuple[int, ...], status: int
) -> None:
    child = spawn(server, entry, *arguments)
    assert Silence.ENDED is silence(child).silence
    assert child.wait_status is not None
    assert status == os.WEXITSTATUS(child.wait_status)
    assert ("ValueError: the entry raised" in child.output.tail()) == (entry == "raises")
    child.close()


def test_a_child_exits_when_its_caller_closes_the_channel(server: ForkServer) -> None:
    child = spawn(server, "echo")
    child.hang_up()
    assert 0 == child.join(Deadline(SECONDS))
    child.close()


def test_an_unknown_entry_ends_the_child_with_a_reason(server: ForkServer) -> None:
    child = spawn(server, "nowhere")
    assert Silence.ENDED is silence(child).silence
    assert "has no attribute 'nowhere'" in child.output.tail()
    child.close()


def test_a_stopped_child_is_distinguished_from_a_slow_one_and_can_resume(server: ForkServer) -> None:
    child = spawn(server, "stops_itself")
    assert Silence.STOPPED is silence(child).silence
    assert child.alive
    child.resume()
    assert b"continued" == reply(child)
    child.close()
    other = spawn(server, "echo")
    other.stop()
    assert Silence.STOPPED is silence(other).silence
    assert signal.SIGKILL == end(other)


KILLED_WHILE_ITS_STATE_IS_READ = """
import os, signal, socket
from sinkproof.chaos.processes import fork_server

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server = fork_server.Server(ours)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(1)
server.forked.add(child)
os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOWAIT)
wait_id = fork_server._wait_id

def killed_after_the_call(options):
    change = wait_id(options)
    if change is not None and change.si_code == os.CLD_STOPPED:
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return change

fork_server._wait_id = killed_after_the_call
server.reap()
server.flush()
print([fork_server.pickle.loads(message) == (what, child, detail) for message, what, detail in [
    (theirs.recv(999), "stopped", signal.SIGSTOP), (theirs.recv(999), "died", signal.SIGKILL)]])
"""


def test_a_child_that_dies_while_its_stop_is_being_reported_is_reaped() -> None:
    """A child may die between the two waitid calls that read and acknowledge its stop."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_ITS_STATE_IS_READ], capture_output=True, text=True, timeout=SECONDS
    )
    assert ("[True, True]\n", "") == (done.stdout, done.stderr)


def test_a_child_without_a_reply_is_hung(server: ForkServer) -> None:
    child = spawn(server, "echo")
    assert Silence.HUNG is silence(child, seconds=0.05).silence
    end(child)


@pytest.mark.parametrize("entry", ["closes_its_channel", "sends_nonsense"])
def test_a_child_that_breaks_its_channel_sends_garbage(server: ForkServer, entry: str) -> None:
    child = spawn(server, entry)
    assert Silence.GARBAGE is silence(child).silence
    end(child)


def test_the_end_of_the_output_is_kept_and_its_size_is_bounded(server: ForkServer) -> None:
    child = spawn(server, "prints", "x" * 9999, 3000)
    assert b"printed" == reply(child)
    child.output.cut()
    assert 0 == os.fstat(child.output.descriptor).st_size
    assert 4096 == len(child.output.tail())
    end(child)
    assert child.output.tail().endswith("xxx\n")


def test_a_child_that_uses_up_its_memory_dies_alone(server: ForkServer) -> None:
    child = spawn(server, "eats_memory", limits=Limits(data_bytes=300 << 20))
    assert Silence.ENDED is silence(child).silence
    assert child.wait_status == EXIT_OUT_OF_MEMORY << 8
    child.close()


def test_a_child_holds_no_descriptor_of_another(server: ForkServer) -> None:
    others = [spawn(server, "echo") for _ in range(3)]
    child = spawn(server, "reports_its_descriptors")
    names = list(json.loads(reply(child)).values())
    assert 1 == sum(name.startswith("socket:") for name in names)
    assert 0 == sum(name.startswith("pipe:") for name in names)
    assert 2 == sum("output" in name for name in names)
    for each in (child, *others):
        end(each)


def test_a_reported_death_includes_all_descendants_of_the_child(server: ForkServer) -> None:
    child = spawn(server, "has_descendants")
    descendants = [os.pidfd_open(pid) for pid in json.loads(reply(child))]
    assert 3 == len(descendants)
    assert not dead(descendants, seconds=0)
    end(child)
    assert dead(descendants, seconds=0)
    for descriptor in descendants:
        os.close(descriptor)


def test_what_a_dead_child_has_started_may_end_by_itself(tmp_path: Path) -> None:
    note = tmp_path / "end"
    with ForkServer(preload=[str(HELPER)]) as patient:
        patient.let_orphans_live(SECONDS)
        child = spawn(patient, "has_reader", str(note))
        assert b"reads" == reply(child)
        end(child)
        assert note.exists()


def test_what_does_not_end_by_itself_in_time_is_killed() -> None:
    with ForkServer(preload=[str(HELPER)]) as patient:
        patient.let_orphans_live(0.05)
        child = spawn(patient, "has_descendants")
        descendants = [os.pidfd_open(pid) for pid in json.loads(reply(child))]
        end(child)
        assert dead(descendants, seconds=0)
    for descriptor in descendants:
        os.close(descriptor)


def test_children_die_with_the_server_and_not_with_their_siblings() -> None:
    with ForkServer(preload=[str(HELPER)]) as short_lived:
        children = [spawn(short_lived, "has_descendants") for _ in range(2)]
        pids = [pid for child in children for pid in (child.pid, *json.loads(reply(child)))]
        descriptors = [os.pidfd_open(pid) for pid in (short_lived.pid, *pids)]
        end(spawn(short_lived, "echo"))
        assert not any(dead([descriptor], seconds=0) for descriptor in descriptors)
    assert dead(descriptors, seconds=0)
    for descriptor in descriptors:
        os.close(descriptor)


CALLER = """
import json, signal, sys
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
with ForkServer(preload=[sys.argv[1]]) as server:
    children = [server.spawn("attempts_under_test:" + entry) for entry in ("echo", "echo", "has_descendants")]
    children[1].stop()
    pids = [server.pid, *(child.pid for child in children), *json.loads(children[2].receive(Deadline(100)))]
    print(json.dumps(pids), flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_server_and_children_die_with_the_caller(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CALLER, str(HELPER)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as caller:
        assert caller.stdout is not None
        pids = json.loads(caller.stdout.readline())
        assert 7 == len(pids)
        descriptors = [os.pidfd_open(pid) for pid in pids]
        try:
            caller.send_signal(number)
            assert dead(descriptors)
        finally:
            caller.kill()
            for descriptor in descriptors:
                os.close(descriptor)


def test_a_killed_server_is_reported_dead() -> None:
    server = ForkServer(preload=[str(HELPER)])  # so that the child outlives the server, not the reverse
    child = server.spawn(f"{HELPER.stem}:echo")
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(ForkServerError, match="died"):
        child.receive(Deadline(SECONDS))
    server.close()


def test_a_failed_import_is_reported_by_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('no such luck')\n")
    with pytest.raises(ForkServerError, match=r"broken\.py failed: RuntimeError: no such luck"):
        ForkServer(preload=[str(broken)])


# -- journal --------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [3, BYTES_AT_FIRST // 6])
def test_the_journal_survives_its_writer_and_ignores_other_processes(server: ForkServer, points: int) -> None:
    journal = JournalReader()
    child = server.spawn(f"{HELPER.stem}:writes_a_journal", points, descriptors=[journal.descriptor])
    silence(child)
    assert [f"point.{number}" for number in range(points)] == journal.new_points()
    assert [] == journal.new_points()
    assert child.wait_status == signal.SIGKILL
    child.close()
    journal.close()


def test_a_point_without_its_newline_was_not_reached() -> None:
    journal = JournalReader()
    os.pwrite(journal.descriptor, b"commit.before\ncommit.af", 0)
    assert ["commit.before"] == journal.new_points()
    assert [] == journal.new_points()
    os.pwrite(journal.descriptor, b"commit.after\n", len("commit.before\n"))
    assert ["commit.after"] == journal.new_points()
    journal.close()
