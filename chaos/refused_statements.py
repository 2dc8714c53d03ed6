"""What makes the server of a database refuse a statement: bytes to send instead, in the protocol of the client.

PostgreSQL and MariaDB report a deadlock, of which this statement's transaction is the victim: it has failed, or is
rolled back. Or they report that a lock was not free in time: in MariaDB the transaction goes on. Redis reports that its
memory is used up: of several commands in one request the last write alone is refused. The replies are the server's own,
so each client raises what it raises for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# PostgreSQL: each message is a letter, a length and its fields.
HEADER_BYTES: Final = 5
QUERY, PARSE, BIND, SYNC, FLUSH = b"Q", b"P", b"B", b"S", b"H"
MESSAGES: Final = b"BCDEFHPQSX"
DEADLOCK: Final = b"DO $$BEGIN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END$$"
NOT_AVAILABLE: Final = (
    b"DO $$BEGIN RAISE EXCEPTION 'canceling statement due to lock timeout' USING ERRCODE = '55P03'; END$$"
)
# MariaDB: a packet is a length of three bytes, a number, a command and what it is about.
PACKET_BYTES: Final = 4
STATEMENTS: Final = (0x03, 0x17)  # COM_QUERY; COM_STMT_EXECUTE, which does not say which statement
ROLLED_BACK: Final = (  # a comment for other servers of this protocol, which refuse an empty query
    b"/*M!100100 BEGIN NOT ATOMIC ROLLBACK; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = "
    b"'Deadlock found when trying to get lock; try restarting transaction'; END */"
)
WAITED_IN_VAIN: Final = (  # the transaction goes on without this statement
    b"/*M!100100 BEGIN NOT ATOMIC SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = "
    b"'Lock wait timeout exceeded; try restarting transaction'; END */"
)
# Statements that wait for locks, unlike those that begin and end transactions.
LOCKING: Final = re.compile(
    rb"\s*(?:insert|update|delete|merge|replace|select|with|copy|call|lock|load|truncate)\b", re.IGNORECASE
)
# Redis: a command is an array of strings with their lengths.
ARRAY, STRING, END = b"*", b"$", b"\r\n"
OUT_OF_MEMORY: Final = b"return redis.error_reply(\"OOM command not allowed when used memory > 'maxmemory'.\")"
REFUSED: Final = b"*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(OUT_OF_MEMORY), OUT_OF_MEMORY)
REFUSED_IN_TRANSACTION: Final = b"*1\r\n$4\r\nEVAL\r\n"  # at once, so that the transaction is discarded
TRANSACTION: Final = b"MULTI"
GROWING: Final = frozenset(  # commands that need memory
    b"APPEND BITOP COPY DECR DECRBY EVAL EVALSHA FCALL GETSET HINCRBY HINCRBYFLOAT HMSET HSET HSETNX INCR INCRBY "
    b"INCRBYFLOAT LINSERT LPUSH LPUSHX LSET MSET MSETNX PSETEX RESTORE RPUSH RPUSHX SADD SDIFFSTORE SET SETBIT SETEX "
    b"SETNX SETRANGE SINTERSTORE SUNIONSTORE XADD ZADD ZINCRBY ZUNIONSTORE".split()
)


def refused(request: bytes) -> bytes | None:
    """None: it is no whole request to such a database, or none that can be refused in this way."""
    return _by_postgresql(request, instead=DEADLOCK) or _by_mariadb(request, instead=ROLLED_BACK) or _by_redis(request)


def timed_out(request: bytes) -> bytes | None:
    """The same where the statement has waited too long for a lock."""
    return _by_postgresql(request, instead=NOT_AVAILABLE) or _by_mariadb(request, instead=WAITED_IN_VAIN)


def _by_postgresql(request: bytes, *, instead: bytes) -> bytes | None:
    messages = [each for each in _messages(request) if each[0] != FLUSH]
    kinds = [kind for kind, _ in messages]
    if kinds == [QUERY]:
        texts = [messages[0][1]]
    elif kinds[-1:] == [SYNC] and BIND in kinds:  # where an error comes, the replies to the other messages do not
        texts = [about.partition(b"\0")[2] for kind, about in messages if kind == PARSE]
    else:
        return None
    return QUERY + _length(len(instead) + 1) + instead + b"\0" if all(map(LOCKING.match, texts)) else None


def _messages(request: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Nothing but whole ones; without them, nothing."""
    at, found = 0, []
    while at + HEADER_BYTES <= len(request) and request[at] in MESSAGES:
        size = int.from_bytes(request[at + 1 : at + HEADER_BYTES], "big")
        found.append((request[at : at + 1], request[at + HEADER_BYTES : at + 1 + size]))
        at += 1 + size
    yield from found if at == len(request) else ()


def _length(of_fields: int) -> bytes:
    return (of_fields + 4).to_bytes(4, "big")


def _by_mariadb(request: bytes, *, instead: bytes) -> bytes | None:
    size, about = int.from_bytes(request[:3], "little"), request[PACKET_BYTES:]
    if not about or size != len(about) or request[3] or about[0] not in STATEMENTS:
        return None
    if about[0] == STATEMENTS[0] and not LOCKING.match(about[1:]):
        return None
    return (len(instead) + 1).to_bytes(3, "little") + bytes((0, STATEMENTS[0])) + instead


def _by_redis(request: bytes) -> bytes | None:
    commands = _commands(request)
    growing = [at for at, (name, _) in enumerate(commands) if name in GROWING]
    if not growing:
        return None
    is_transaction = any(name == TRANSACTION for name, _ in commands[: growing[-1]])
    refusal = REFUSED_IN_TRANSACTION if is_transaction else REFUSED
    return b"".join(refusal if at == growing[-1] else sent for at, (_, sent) in enumerate(commands))


def _commands(request: bytes) -> list[tuple[bytes, bytes]]:
    """Each with its name, and as it is sent. Nothing, if there are others than whole ones."""
    found, at = [], 0
    try:
        while at < len(request):
            begin = at
            number, at = _number(request, at, ARRAY)
            parts = []
            for _ in range(number):
                size, at = _number(request, at, STRING)
                parts.append(request[at : at + size])
                at += size + len(END)
            found.append((parts[0].upper(), request[begin:at]))
    except (ValueError, IndexError):
        return []
    return found if at == len(request) else []


def _number(request: bytes, at: int, kind: bytes) -> tuple[int, int]:
    """With the place behind it. Raises ValueError."""
    end = request.index(END, at)
    digits = request[at + 1 : end]
    if request[at : at + 1] != kind or not digits.isdigit():
        raise ValueError(request[at:end])
    return int(digits), end + len(END)
