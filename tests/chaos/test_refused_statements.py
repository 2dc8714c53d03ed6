"""What is sent to a database instead of a statement, so that its server refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.refused_statements import refused, timed_out
from sinkproof.chaos.system_calls.acts import Act

from .test_lost_replies import SENDS
from .test_system_calls import needs_watch, python, run


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


def postgresql(kind: str, about: bytes) -> bytes:
    return kind.encode() + (len(about) + 4).to_bytes(4, "big") + about


def mariadb(command: int, about: bytes) -> bytes:
    return (len(about) + 1).to_bytes(3, "little") + bytes((0, command)) + about


def redis(*words: str) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


BOUND = postgresql("B", b"\0name\0") + postgresql("E", b"\0\0\0\0\0") + postgresql("S", b"")
MULTI, EXEC = redis("MULTI"), redis("EXEC")


@pytest.mark.parametrize(
    "request_sent",
    [
        postgresql("Q", b"INSERT INTO rows VALUES (1)\0"),
        postgresql("Q", b"\n  with new as (select 1) insert into rows select * from new\0"),
        postgresql("P", b"\0update rows set a = $1\0\0\0") + BOUND,
        BOUND,
        postgresql("P", b"name\0insert into rows values ($1)\0\0\0") + BOUND + postgresql("H", b""),  # one of many rows
    ],
)
def test_a_statement_of_postgresql_raises_a_deadlock_as_a_simple_query(request_sent: bytes) -> None:
    instead = refused(request_sent)
    assert instead is not None
    length = int.from_bytes(instead[1:5], "big")
    assert (b"Q", len(instead) - 1, b"\0") == (instead[:1], length, instead[-1:])
    assert b"40P01" in instead


def test_a_statement_of_mariadb_rolls_its_transaction_back() -> None:
    for request in (mariadb(0x03, b"insert into rows values (1)"), mariadb(0x17, b"\1\0\0\0\0\1\0\0\0")):
        instead = refused(request)
        assert instead is not None
        assert (len(instead) - 4, 0, 0x03) == (int.from_bytes(instead[:3], "little"), instead[3], instead[4])
        assert b"ROLLBACK; SIGNAL" in instead
        assert b"1213" in instead


def test_a_lock_that_is_not_free_in_time_refuses_one_statement() -> None:
    """In MariaDB nothing is rolled back."""
    waited = timed_out(mariadb(0x03, b"insert into rows values (1)"))
    assert waited is not None
    assert (len(waited) - 4, 0x03) == (int.from_bytes(waited[:3], "little"), waited[4])
    assert b"1205" in waited
    assert b"ROLLBACK" not in waited
    failed = timed_out(postgresql("Q", b"INSERT INTO rows VALUES (1)\0"))
    assert failed is not None
    assert b"55P03" in failed
    assert timed_out(redis("SADD", "parts", "1")) is None
    assert timed_out(mariadb(0x03, b"commit")) is None


def test_of_several_commands_of_redis_the_last_write_is_refused() -> None:
    first, last, read = redis("SADD", "parts", "1"), redis("hset", "rows", "1", "a\r\nb"), redis("GET", "rows")
    instead = refused(first + last + read)
    assert instead is not None
    assert instead.startswith(first + b"*3\r\n$4\r\nEVAL\r\n")
    assert instead.endswith(read)
    assert b"OOM" in instead


def test_in_a_transaction_of_redis_a_command_is_refused_before_it_is_queued() -> None:
    write = redis("SET", "a", "1")
    assert MULTI + write + b"*1\r\n$4\r\nEVAL\r\n" + EXEC == refused(MULTI + write + write + EXEC)


@pytest.mark.parametrize(
    "request_sent",
    [
        b"",
        postgresql("Q", b"COMMIT\0"),
        postgresql("Q", b"insert into rows values (1)\0")[:-3],
        postgresql("P", b"\0begin\0\0\0") + BOUND,
        postgresql("P", b"name\0insert into rows values ($1)\0\0\0") + postgresql("S", b""),
        postgresql("d", b"a row of a copy"),
        mariadb(0x03, b"COMMIT"),
        mariadb(0x16, b"insert into rows values (?)"),
        mariadb(0x03, b"insert into rows values (1)") + b"more",
        redis("GET", "a"),
        redis("SET", "a", "1")[:-1],
        redis("SET", "a", "1") + b"more",
        MULTI + EXEC,
        b"SET a 1\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"*x\r\n",
        b"*1\r\n$-4\r\n",
        bytes(1 << 20),
        b"*0\r\n",
        b"\x16\x03\x01" + bytes(50),
    ],
)
def test_other_requests_are_not_refused(request_sent: bytes) -> None:
    assert refused(request_sent) is None


REFUSED = """
ours, theirs = socket.socketpair()
{send}
print(theirs.recv(999).count(b"EVAL"), file=open("seen", "w"))
"""


@needs_watch
@pytest.mark.parametrize("call", SENDS)
def test_the_server_gets_what_it_refuses(server: ForkServer, tmp_path: Path, call: str) -> None:
    statement = redis("SET", "a", "1").decode()
    half = len(statement) // 2
    send = SENDS[call].replace("b'0123456789'", f"b{statement!r}")
    send = send.replace("[b'01234', b'56789']", f"[b{statement[:half]!r}, b{statement[half:]!r}]")
    program = python(REFUSED.format(send=f"assert {len(statement)} == {send}"))
    status, _, struck, _ = run(server, tmp_path, program, (f"syscall({call} socket)", 1, Act.REFUSE))
    assert (0, [Act.REFUSE]) == (status, struck)
    assert "1\n" == (tmp_path / "seen").read_text()


@needs_watch
def test_what_is_no_statement_is_sent_as_it_is(server: ForkServer, tmp_path: Path) -> None:
    program = python("""
ours, theirs = socket.socketpair()
print(ours.send(b"hello"), theirs.recv(99), file=open("seen", "w"))
""")
    status, _, struck, _ = run(server, tmp_path, program, ("syscall(sendto socket)", 1, Act.REFUSE))
    assert (0, []) == (status, struck)
    assert "5 b'hello'\n" == (tmp_path / "seen").read_text()
