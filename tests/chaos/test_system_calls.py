"""Outward system calls of a program: notified before they are carried out, named, struck, and let go on."""

from __future__ import annotations

import errno
import os
import platform
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.outward_calls import AIO, CALLS, IO_URING, MAP, error_of, number_of
from sinkproof.chaos.system_calls.place_names import canonical_name
from sinkproof.chaos.system_calls.watched_program import watched

from ..support.watched_programs import SECONDS, ended, perl, python, run

needs_watch = pytest.mark.usefixtures("watch_of_system_calls")
HEADERS = {"x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), "aarch64": Path("/usr/include/asm-generic")}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


STEPS = """
mkdir("$ENV{FOLDER}/out"); open F, ">", "$ENV{FOLDER}/out/temp-17" or exit 3; syswrite F, "row\\n" or exit 4; close F;
rename "$ENV{FOLDER}/out/temp-17", "$ENV{FOLDER}/out/part" or exit 5; unlink "$ENV{FOLDER}/out/part" or exit 6;
"""
PLACES = [
    "syscall(mkdir out)",
    "syscall(openat out/temp-*)",
    "syscall(write out/temp-*)",
    "syscall(rename out/part)",
    "syscall(unlink out/part)",
]
LEFT = [[], ["out"], ["out", "out/temp-17"], ["out", "out/temp-17"], ["out", "out/part"]]


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@needs_watch
def test_each_change_below_the_folder_is_named_in_order(server: ForkServer, tmp_path: Path) -> None:
    status, points, struck, watch = run(server, tmp_path, perl(STEPS))
    assert (0, PLACES, [], {}) == (status, points, struck, watch.unseen)


@needs_watch
@pytest.mark.parametrize(("place", "left"), list(zip(PLACES, LEFT, strict=True)))
def test_a_kill_leaves_what_the_calls_before_it_made(
    server: ForkServer, tmp_path: Path, place: str, left: list[str]
) -> None:
    status, points, _, _ = run(server, tmp_path, perl(STEPS), (place, 1, Act.KILL))
    assert (signal.SIGKILL, place) == (status, points[-1])
    assert left == left_in(tmp_path)


@needs_watch
def test_the_second_occurrence_is_struck_and_not_the_first(server: ForkServer, tmp_path: Path) -> None:
    program = 'for (1..3) { open F, ">", "$ENV{FOLDER}/part-$_"; close F; }'
    _, points, _, _ = run(server, tmp_path, perl(program), ("syscall(openat part-*)", 2, Act.KILL))
    assert (["part-1"], 2) == (left_in(tmp_path), len(points))


@needs_watch
@pytest.mark.parametrize(("number", "status"), [(1, 3), (2, 4), (3, 5), (4, 6)])
def test_an_error_is_returned_and_the_call_is_not_carried_out(
    server: ForkServer, tmp_path: Path, number: int, status: int
) -> None:
    ended_with, _, struck, _ = run(server, tmp_path, perl(STEPS), (PLACES[number], 1, Act.FAIL))
    assert (status, [Act.FAIL]) == (os.waitstatus_to_exitcode(ended_with or 0), struck)
    assert LEFT[number] == left_in(tmp_path)


@needs_watch
@pytest.mark.parametrize("act", [Act.FAIL, Act.LOSE_REPLY])
def test_a_struck_call_returns_when_the_program_is_to_go_on(server: ForkServer, tmp_path: Path, act: Act) -> None:
    armed, variables = (PLACES[3], 1, act), {"FOLDER": str(tmp_path)}
    with watched(server, perl(STEPS), tmp_path, variables=variables, armed=armed) as (child, watch):
        assert ended(child, watch) is None
        assert watch.take_strike() is act
        assert child.join(Deadline(0.1)) is None, "it would end by the error"
        watch.go_on()
        assert 5 == os.waitstatus_to_exitcode(child.join(Deadline(SECONDS)) or 0)


@needs_watch
def test_the_reply_of_a_rename_is_lost_although_it_was_carried_out(server: ForkServer, tmp_path: Path) -> None:
    status, _, _, _ = run(server, tmp_path, perl(STEPS), (PLACES[3], 1, Act.LOSE_REPLY))
    assert 5 == os.waitstatus_to_exitcode(status or 0)
    assert ["out", "out/part"] == left_in(tmp_path)


@needs_watch
def test_a_held_call_takes_effect_when_it_is_let_go_and_then_the_program_dies_at_the_next(
    server: ForkServer, tmp_path: Path
) -> None:
    armed, variables = (PLACES[3], 1, Act.HOLD), {"FOLDER": str(tmp_path)}
    with watched(server, perl(STEPS), tmp_path, variables=variables, armed=armed) as (child, watch):
        assert ended(child, watch) is None
        assert (Act.HOLD, LEFT[3]) == (watch.take_strike(), left_in(tmp_path))
        watch.go_on(then_die=True)
        assert signal.SIGKILL == child.join(Deadline(SECONDS))
        assert (LEFT[4], PLACES) == (left_in(tmp_path), watch.take_points())


TWO_THREADS = """
import threading
def waits_in_mkdir(thread):
    return open(f"/proc/self/task/{thread}/syscall").read().split()[0] == "MKDIR"
first = threading.Thread(target=os.mkdir, args=["a"])
first.start()
while not waits_in_mkdir(first.native_id): pass
os.mkdir("b")
first.join()
"""


@needs_watch
def test_while_one_thread_is_held_the_calls_of_the_others_wait(server: ForkServer, tmp_path: Path) -> None:
    number = str(number_of(CALLS["mkdir"]) or number_of(CALLS["mkdirat"]))
    words = python(TWO_THREADS.replace("MKDIR", number))
    armed, variables = ("syscall(mkdir a)", 1, Act.HOLD), {"FOLDER": str(tmp_path)}
    with watched(server, words, tmp_path, variables=variables, armed=armed) as (child, watch):
        assert ended(child, watch) is None
        assert Act.HOLD is watch.take_strike()
        deadline = Deadline(SECONDS)
        waiting = 0
        while waiting < 2 and not left_in(tmp_path) and not deadline.over:
            tasks = [task.read_text().split() for task in Path(f"/proc/{child.pid}/task").glob("*/syscall")]
            waiting = sum(words[0] == number for words in tasks)
        assert [] == left_in(tmp_path)
        watch.go_on()
        assert 0 == child.join(deadline)
    assert ["a", "b"] == left_in(tmp_path)


SENDS_BESIDE = """
import threading
connection = socket.create_connection(("127.0.0.1", PORT))
def is_held(thread):
    return open(f"/proc/self/task/{thread}/syscall").read().split()[0] == "SENDTO"
first = threading.Thread(target=connection.send, args=[b"held"])
first.start()
while not is_held(first.native_id): pass
os.mkdir("b")
"""


@needs_watch
def test_a_held_request_is_sent_before_a_call_that_waits_behind_it_ends_the_program(
    server: ForkServer, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program = SENDS_BESIDE.replace("PORT", str(listening.getsockname()[1]))
        words = python(program.replace("SENDTO", str(number_of(CALLS["sendto"]))))
        armed, variables = ("syscall(sendto socket)", 1, Act.HOLD), {"FOLDER": str(tmp_path)}
        with watched(server, words, tmp_path, variables=variables, armed=armed) as (child, watch):
            assert ended(child, watch) is None
            assert Act.HOLD is watch.take_strike()
            deadline = Deadline(SECONDS)
            while not watch._held and not deadline.over:
                os.sched_yield()
            connection, _ = listening.accept()
            kill, arrived = watch.kill, []
            watch.kill = lambda: [arrived.append(arrived_at(connection)), kill()]
            with connection:
                watch.go_on(then_die=True)
                assert signal.SIGKILL == child.join(deadline)
    assert ([b"held"], []) == (arrived, left_in(tmp_path))


def arrived_at(connection: socket.socket) -> bytes:
    with suppress(BlockingIOError):
        return connection.recv(16, socket.MSG_DONTWAIT)
    return b""


@needs_watch
def test_children_and_other_programs_are_followed(server: ForkServer, tmp_path: Path) -> None:
    words = ["bash", "-c", 'cd "$FOLDER"; echo row > temp; (mv temp part); mkdir done; exit 3']
    status, points, _, _ = run(server, tmp_path, words, ("syscall(mkdir done)", 1, Act.KILL))
    assert (signal.SIGKILL, ["part"]) == (status, left_in(tmp_path))
    assert re.search(r"^syscall\(rename\w* part\)", "\n".join(points), re.MULTILINE)


@needs_watch
def test_what_is_sent_to_a_server_is_a_place(server: ForkServer, tmp_path: Path) -> None:
    program = "left, right = socket.socketpair()\nleft.send(b'x')\nos.write(left.fileno(), b'y')\nprint('elsewhere')"
    _, points, _, _ = run(server, tmp_path, python(program))
    assert ["syscall(sendto socket)", "syscall(write socket)"] == points


@needs_watch
def test_a_map_that_is_written_to_is_noticed_and_one_for_reading_is_not(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(4096))
    reads = "file = open('log', 'rb')\nmmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)"
    _, _, _, watch = run(server, tmp_path, python(reads))
    assert {} == watch.unseen
    _, _, _, watch = run(server, tmp_path, python("file = open('log', 'rb+')\nmmap.mmap(file.fileno(), 0)[:1] = b'x'"))
    assert ["it maps log into its memory: what it writes there is no system call"] == list(watch.unseen)


@needs_watch
def test_io_uring_is_refused_as_if_the_kernel_had_none(server: ForkServer, tmp_path: Path) -> None:
    number = getattr(IO_URING, platform.machine())
    call = f"ctypes.CDLL(None, use_errno=True).syscall({number}, 1, ctypes.create_string_buffer(200))"
    status, _, _, _ = run(server, tmp_path, python(f"os._exit(ctypes.get_errno() if {call} < 0 else 0)"))
    assert os.strerror(os.waitstatus_to_exitcode(status or 0)) == "Function not implemented"


@needs_watch
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has a second table of numbers")
def test_a_call_by_a_number_of_another_architecture_ends_the_program(server: ForkServer, tmp_path: Path) -> None:
    status, _, _, _ = run(server, tmp_path, python("ctypes.CDLL(None).syscall(0x40000000 + 83, b'hidden', 0o777)"))
    assert (True, signal.SIGSYS) == (os.WIFSIGNALED(status or 0), os.WTERMSIG(status or 0))
    assert [] == left_in(tmp_path)


SUPERVISES = """
import sys
from pathlib import Path
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.watched_program import watched
folder = Path(sys.argv[1])
armed = "syscall(mkdir a)", 1, Act.HOLD
words = ["mkdir", str(folder / "a")]
with ForkServer() as server, watched(server, words, folder, variables={}, armed=armed) as (child, watch):
    child.struck = watch.struck
    try:
        child.receive(__import__("sinkproof.chaos.clock").chaos.clock.Deadline(60))
    except Exception:
        print(child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@needs_watch
def test_a_supervisor_that_dies_leaves_nothing_waiting(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SUPERVISES, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        held = os.pidfd_open(int(supervisor.stdout.readline()))
        supervisor.kill()
        poll = select.poll()
        poll.register(held, select.POLLIN)
        assert poll.poll(int(SECONDS * 1000))
        os.close(held)
    assert [] == left_in(tmp_path)


@pytest.mark.parametrize(
    ("call", "is_socket", "error"),
    [
        ("pwrite64", False, errno.ENOSPC),
        ("mkdirat", False, errno.ENOSPC),
        ("renameat2", False, errno.EACCES),
        ("fdatasync", False, errno.EIO),
        ("write", True, errno.ECONNRESET),
    ],
)
def test_an_error_is_one_that_the_call_may_return(call: str, is_socket: bool, error: int) -> None:
    assert error == error_of(call, is_socket=is_socket)


def test_parts_that_a_run_draws_anew_are_no_part_of_a_name() -> None:
    names = {
        "out/part-0017-7f3a9c.json": "out/part-*-*.json",
        "_SUCCESS": "_SUCCESS",
        "tmpab_c1d2e/x": "*/x",
        "tmp.QzTbRkLmNp": "tmp.*",
        "a/temporary/README.md": "a/temporary/README.md",
        "5b0e2c1e-9d52-4f0b-9d0a-3c8a2f6f1b11": "*-*-*-*-*",
        "part-5b0e2c1e-9d52-4f0b-afeb-3c8a2f6f1b11": "part-*-*-*-*-*",
    }
    assert names == {path: canonical_name(path) for path in names}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_numbers_of_calls_are_those_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine] if machine == "x86_64" else HEADERS[machine] / "unistd.h"
    if not header.exists():
        pytest.skip(f"the kernel's headers are not installed: there is no {header}")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    table = {**CALLS, "mmap": MAP, "io_uring_setup": IO_URING, "io_setup": AIO}
    known = {name: getattr(call, machine) for name, call in table.items() if name in defined}
    assert {name: int(defined[name]) for name in known} == known
    assert len(known) > 30
    assert {name for name in table if name not in known} <= {"fchmodat2"} | {
        name for name, call in table.items() if call.aarch64 is None
    }


WATCHES_UNPRIVILEGED = """
import os, socket, tempfile
from sinkproof.chaos.system_calls.place_names import PlaceNames
from sinkproof.chaos.system_calls.seccomp_filter import put_on, receive_listener
from sinkproof.chaos.system_calls.supervisor import SystemCallWatch
os.setgroups([]), os.setgid(65534), os.setuid(65534)  # once all is imported: the interpreter may be out of reach then
with tempfile.TemporaryDirectory() as folder:
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        put_on(theirs)
        os.execvp("mkdir", ["mkdir", folder + "/made"])
    theirs.close()
    watch = SystemCallWatch(receive_listener(ours).listener, PlaceNames(folder), kill=ours.close)
    status = os.waitpid(child, 0)[1]
    print(status, watch.take_points(), os.listdir(folder), watch.unseen)
"""


@needs_watch
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_unprivileged_user_can_watch(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WATCHES_UNPRIVILEGED]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert ("0 ['syscall(mkdir made)'] ['made'] {}\n", "") == (done.stdout, done.stderr)
