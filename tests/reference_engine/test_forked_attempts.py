"""Forked processes that may be killed: they hold nothing open, outlive no parent, and report their wait status."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from sinkproof.reference_engine.shells.spark.forked_attempts import ForkedProcess, fork

WAIT_MS = 10_000

PARENT = """
import signal
from sinkproof.reference_engine.shells.spark.forked_attempts import fork

child = fork(signal.pause)
print(child.pid, flush=True)
signal.pause()
"""

FAILING = """
import os
from sinkproof.reference_engine.shells.spark.forked_attempts import fork

def body():
    raise RuntimeError("on purpose")

print(os.waitstatus_to_exitcode(fork(body).reap()))
"""

GRANDPARENT = """
import os
from sinkproof.chaos.processes.parent_death import adopt_orphans

adopt_orphans()
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    if os.fork() == 0:
        os.read(read, 1)
        os._exit(7)
    os._exit(0)
os.waitpid(pid, 0)
os.write(write, b"!")
print(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]))
"""


def ended(pid_descriptor: int) -> bool:
    poll = select.poll()
    poll.register(pid_descriptor, select.POLLIN)
    return bool(poll.poll(WAIT_MS))


def leave(code: object) -> Callable[[], None]:
    def body() -> None:
        raise SystemExit(code)

    return body


@pytest.mark.parametrize(
    ("code", "body"),
    [(0, lambda: None), (3, leave(3)), (1, leave("a text"))],
    ids=["returns", "exits", "exits with a text"],
)
def test_a_childs_end_is_its_exit_code(code: int, body: Callable[[], None]) -> None:
    assert code == os.waitstatus_to_exitcode(fork(body).reap())


def test_an_exception_of_a_child_is_reported_once_and_does_not_return_into_its_parents_code() -> None:
    answer = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, text=True, check=True)
    assert ("1\n", 1) == (answer.stdout, answer.stderr.count("RuntimeError: on purpose"))


def test_a_killed_child_ends_by_the_signal_and_is_reaped_once() -> None:
    child = fork(signal.pause)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(child.end())
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(child.end())
    assert -1 == child.descriptor
    with pytest.raises(ChildProcessError):
        os.waitpid(child.pid, 0)


def test_a_child_that_ends_in_time_is_not_killed() -> None:
    read, write = os.pipe()
    child = fork(lambda: os._exit(len(os.read(read, 1))), keep=[read])
    os.write(write, b"!")
    os.close(read)
    os.close(write)
    assert 1 == os.waitstatus_to_exitcode(child.end(grace_seconds=10.0))


def test_a_stopped_child_is_distinguished_from_a_running_and_a_dead_one() -> None:
    ours, its = socket.socketpair()

    def body() -> None:
        its.recv(1)
        os.kill(os.getpid(), signal.SIGSTOP)
        signal.pause()

    child = fork(body, keep=[its.fileno()])
    assert not child.stopped()
    ours.send(b"!")
    while not child.stopped():  # the test's own timeout bounds it
        select.select([child.descriptor], [], [], 0.01)
    os.kill(child.pid, signal.SIGKILL)
    assert ended(child.descriptor)
    assert not child.stopped()
    assert child.status is not None
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(child.reap())
    ours.close()
    its.close()


def test_inherited_descriptors_lead_nowhere_but_those_that_are_kept() -> None:
    """A connection that a child held open would hide its parent's death from the other end."""
    ours, its = socket.socketpair()
    kept, report = os.pipe()

    def body() -> None:
        sent = os.write(its.fileno(), b"discarded")  # the number is there, and leads to /dev/null
        os.write(report, f"{sent} {os.readlink(f'/proc/self/fd/{its.fileno()}')}".encode())
        signal.pause()

    child = fork(body, keep=[report])
    assert f"9 {os.devnull}" == os.read(kept, 100).decode()
    its.close()
    assert b"" == ours.recv(100)  # the end of the stream, though the child lives
    child.end()
    ours.close()
    os.close(kept)
    os.close(report)


def test_a_child_dies_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        descriptor = os.pidfd_open(pid)
        parent.kill()
        assert ended(descriptor)
        os.close(descriptor)


def test_a_child_is_deaf_to_ctrl_c_but_not_to_sigterm() -> None:
    ready, signal_end = os.pipe()

    def body() -> None:
        os.write(signal_end, b"!")
        signal.pause()

    child: ForkedProcess = fork(body, keep=[signal_end])
    os.read(ready, 1)
    os.kill(child.pid, signal.SIGINT)
    os.kill(child.pid, signal.SIGTERM)
    assert -signal.SIGTERM == os.waitstatus_to_exitcode(child.reap())
    os.close(ready)
    os.close(signal_end)


def test_orphans_of_descendants_become_ours() -> None:
    answer = subprocess.run([sys.executable, "-c", GRANDPARENT], capture_output=True, text=True, check=True)
    assert "7" == answer.stdout.strip()
