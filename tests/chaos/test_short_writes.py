"""Half of what a call writes arrives, and the call says so."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.acts import Act

from ..support.watched_programs import perl, python, run

needs_watch = pytest.mark.usefixtures("watch_of_system_calls")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


@needs_watch
def test_half_of_a_write_arrives_and_the_rest_is_written_after_it(server: ForkServer, tmp_path: Path) -> None:
    program = 'open F, ">", "$ENV{FOLDER}/f"; print F "0123456789"; close F or exit 1'
    status, points, struck, _ = run(server, tmp_path, perl(program), ("syscall(write f)", 1, Act.CUT))
    assert (0, [Act.CUT], 2) == (status, struck, points.count("syscall(write f)"))
    assert "0123456789" == (tmp_path / "f").read_text()


@needs_watch
@pytest.mark.parametrize(("whole", "half"), [("0123456789", "01234"), (r"01\n34\n", "01")])
def test_a_death_after_half_of_a_write_leaves_this_half_and_no_whole_lines(
    server: ForkServer, tmp_path: Path, whole: str, half: str
) -> None:
    program = f'open F, ">", "$ENV{{FOLDER}}/f"; print F "{whole}"; close F'
    cut, kill = ("syscall(write f)", 1, Act.CUT), ("syscall(write f)", 1, Act.KILL)
    status, _, struck, _ = run(server, tmp_path, perl(program), cut, kill)
    assert (signal.SIGKILL, [Act.CUT], half) == (status, struck, (tmp_path / "f").read_text())


@needs_watch
@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("writev", "os.writev(f, [data[done : done + 3], data[done + 3 :]])"),
        ("pwritev2", "os.pwritev(f, [data[done:]], done)"),
        ("sendfile", "os.sendfile(f, there, done, 1 << 20)"),
        ("sendfile", "os.sendfile(f, there, None, 1 << 20)"),
        ("copy_file_range", "os.copy_file_range(there, f, 1 << 20)"),
        ("copy_file_range", "os.copy_file_range(there, f, 1 << 20, done, done)"),
        ("copy_file_range", "c.copy_file_range(there, ctypes.byref(at), f, ctypes.byref(to), 10 - done, 0)"),
        ("sendfile", "c.sendfile(f, there, ctypes.byref(at), 10 - done)"),
    ],
)
def test_half_of_what_is_copied_or_gathered_arrives_and_the_rest_after_it(
    server: ForkServer, tmp_path: Path, call: str, step: str
) -> None:
    program = f"""data, done = b"0123456789", 0
c, at, to = ctypes.CDLL(None), ctypes.c_longlong(0), ctypes.c_longlong(0)  # C programs go on from these positions
there, f = os.open("there", os.O_RDONLY), os.open("f", os.O_WRONLY | os.O_CREAT)
while done < len(data):
    done += {step}
"""
    (tmp_path / "there").write_text("0123456789")
    status, points, struck, _ = run(server, tmp_path, python(program), (f"syscall({call} f)", 1, Act.CUT))
    assert (0, [Act.CUT], 2) == (status, struck, points.count(f"syscall({call} f)"))
    assert "0123456789" == (tmp_path / "f").read_text()
