"""What a program sends arrives, and no reply does; or the connection is lost: in each way in which it can send."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.carried_out import half_of

from .test_system_calls import needs_watch, python, run

DIGITS, LINES = b"0123456789", b"one\ntwo\n"
SENDS = {
    "sendto": "ours.send(b'0123456789')",
    "write": "os.write(ours.fileno(), b'0123456789')",
    "writev": "os.writev(ours.fileno(), [b'01234', b'56789'])",
    "sendmsg": "ours.sendmsg([b'01234', b'56789'])",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


@needs_watch
@pytest.mark.parametrize("call", SENDS)
def test_what_is_sent_arrives_and_no_reply_does(server: ForkServer, tmp_path: Path, call: str) -> None:
    program = f"""
ours, theirs = socket.socketpair()
print({SENDS[call]}, ours.recv(9), theirs.recv(99), file=open("seen", "w"))
"""
    status, _, struck, _ = run(server, tmp_path, python(program), (f"syscall({call} socket)", 1, Act.LOSE_REPLY))
    assert (0, [Act.LOSE_REPLY]) == (status, struck)
    assert "10 b'' b'0123456789'\n" == (tmp_path / "seen").read_text()


@needs_watch
@pytest.mark.parametrize("call", SENDS)
def test_where_sending_fails_the_connection_is_lost_for_both_ends(
    server: ForkServer, tmp_path: Path, call: str
) -> None:
    """Some clients read what the server has to say before they report the error."""
    program = f"""
ours, theirs = socket.socketpair()
try:
    {SENDS[call]}
except ConnectionResetError:
    print(ours.recv(9), theirs.recv(99), file=open("seen", "w"))
"""
    status, _, struck, _ = run(server, tmp_path, python(program), (f"syscall({call} socket)", 1, Act.FAIL))
    assert (0, [Act.FAIL]) == (status, struck)
    assert "b'' b''\n" == (tmp_path / "seen").read_text()


TIMED = """
with socket.create_server(("127.0.0.1", 0)) as listener:
    ours = socket.create_connection(listener.getsockname(), timeout=0.2)
    theirs = listener.accept()[0]
    {send}
    theirs.sendall(theirs.recv(99))
    try:
        seen = ours.recv(9)
    except TimeoutError:
        seen = "nothing"
    print(seen, file=open("seen", "w"))
"""


@needs_watch
@pytest.mark.parametrize("call", SENDS)
def test_where_nothing_comes_back_the_client_waits_until_its_timeout_is_over(
    server: ForkServer, tmp_path: Path, call: str
) -> None:
    program = python(TIMED.format(send=SENDS[call]))
    status, _, struck, _ = run(server, tmp_path, program, (f"syscall({call} socket)", 1, Act.SILENCE))
    assert (0, [Act.SILENCE]) == (status, struck)
    assert "nothing\n" == (tmp_path / "seen").read_text()


LOST = """
with socket.create_server(("127.0.0.1", 0)) as listener:
    ours = socket.create_connection(listener.getsockname(), timeout=0.2)
    theirs = listener.accept()[0]
    {send}
    ours.sendall(b"later")
    theirs.sendall(b"hello")
    try:
        seen = ours.recv(9)
    except TimeoutError:
        seen = "nothing"
    ours.close()
    print(seen, theirs.recv(99), file=open("seen", "w"))
"""


@needs_watch
@pytest.mark.parametrize("call", SENDS)
def test_what_is_lost_is_neither_received_nor_followed_by_what_the_connection_sends_later(
    server: ForkServer, tmp_path: Path, call: str
) -> None:
    program = python(LOST.format(send=SENDS[call]))
    status, _, struck, _ = run(server, tmp_path, program, (f"syscall({call} socket)", 1, Act.SWALLOW))
    assert (0, [Act.SWALLOW]) == (status, struck)
    assert "nothing b''\n" == (tmp_path / "seen").read_text()


@needs_watch
def test_what_comes_over_a_socket_of_this_machine_is_not_held_back(server: ForkServer, tmp_path: Path) -> None:
    program = """
ours, theirs = socket.socketpair()
ours.send(b"0123456789")
theirs.send(theirs.recv(99))
print(ours.recv(99), file=open("seen", "w"))
"""
    status, _, struck, _ = run(server, tmp_path, python(program), ("syscall(sendto socket)", 1, Act.SILENCE))
    assert (0, []) == (status, struck)
    assert "b'0123456789'\n" == (tmp_path / "seen").read_text()


@needs_watch
def test_a_connection_of_which_nothing_could_be_lost_goes_on(server: ForkServer, tmp_path: Path) -> None:
    program = """
with socket.socket(type=socket.SOCK_DGRAM) as ours, socket.socket(type=socket.SOCK_DGRAM) as theirs:
    theirs.bind(("127.0.0.1", 0))
    theirs.settimeout(5)
    ours.sendto(b"to an address", theirs.getsockname())
    ours.connect(theirs.getsockname())
    ours.send(b"later")
    print(theirs.recv(99), theirs.recv(99), file=open("seen", "w"))
"""
    status, _, struck, _ = run(server, tmp_path, python(program), ("syscall(sendto socket)", 1, Act.SWALLOW))
    assert (0, []) == (status, struck)
    assert "b'to an address' b'later'\n" == (tmp_path / "seen").read_text()


@needs_watch
@pytest.mark.parametrize(
    ("call", "text"), [("sendto", b"0123456789"), ("write", b"0123456789"), ("sendto", b"one\ntwo\n")]
)
def test_a_program_that_dies_within_a_request_has_sent_half_of_it_and_no_whole_lines(
    server: ForkServer, tmp_path: Path, call: str, text: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        send = "ours.send(text)" if call == "sendto" else "os.write(ours.fileno(), text)"
        program = f"text = {text!r}\nours = socket.create_connection({listener.getsockname()})\n{send}\n"
        status, _, struck, _ = run(server, tmp_path, python(program), (f"syscall({call} socket)", 1, Act.KILL_HALFWAY))
        with listener.accept()[0] as theirs, theirs.makefile("rb") as stream:
            arrived = stream.read()
    assert signal.SIGKILL == status
    assert [] == struck
    assert text[: 3 + 2 * (b"\n" not in text)] == arrived


HEAD = b"PUT /part-1 HTTP/1.1\r\nContent-Length: 8\r\n\r\n"


@pytest.mark.parametrize(
    ("whole", "half"),
    [(b"01234567", b"0123"), (LINES, b"one"), (HEAD, b""), (HEAD[:-9], b""), (HEAD + LINES, HEAD + b"one"), (b"", b"")],
)
def test_half_of_a_request_of_http_has_its_whole_head(whole: bytes, half: bytes) -> None:
    assert half == half_of(whole)
