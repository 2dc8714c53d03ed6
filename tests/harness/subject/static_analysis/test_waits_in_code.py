"""For how long a sink's code waits for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.subject.static_analysis.waits_in_code import long_wait_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("lock.acquire(timeout=8)", 9.0),
        ("lock.acquire(timeout=8.0)", 9.0),
        ("LOCK_TIMEOUT_MS = 7000", 8.0),
        ("query = 'SELECT GET_LOCK(%s, 10)'", 11.0),
        ("lock.acquire(timeout=1)", 3.0),
        ("lock.acquire(timeout=30)", 31.0),
        ("lock.acquire(timeout=60)", 3.0),
        ("LOCK_TIMEOUT: Final = 15", 16.0),
        ("query = 'SELECT GET_LOCK(%s, 15)'", 16.0),
        ("query = f\"SET lock_timeout = '12s'\"", 13.0),
        ("query = 'PRAGMA busy_timeout = 20000'", 21.0),
        ("connect(host, connect_timeout=20)", 3.0),
        ("rows = rows[:20]", 3.0),
        ("lock.acquire()", 3.0),
        ("import sqlite3\nsqlite3.connect(path, timeout=30)\nlock.acquire(timeout=8)", 9.0),
        ("from sqlite3 import connect\nconnect('wörter.db', timeout=30.0); lock.acquire(timeout=8)", 9.0),
        ("import sqlite3\nWAIT = 30.0\nsqlite3.connect(path, timeout=WAIT)", 3.0),
        ("import sqlite3\nWAIT = 30\nsqlite3.connect(path, timeout=WAIT)\nlock.acquire(timeout=WAIT)", 31.0),
        ("import sqlite3\ndb.execute('PRAGMA busy_timeout = 30000')", 3.0),
        ("import sqlite3\nsqlite3.connect(path, timeout=4)", 5.0),
        ("import sqlite3\ndb.execute('PRAGMA busy_timeout = 4000')", 5.0),
        ("import psycopg\npsycopg.connect(timeout=30)", 31.0),
    ],
)
def test_a_suspended_attempt_is_waited_for_longer_than_the_code_waits(
    text: str, seconds: float, tmp_path: Path
) -> None:
    file = tmp_path / "sink.py"
    file.write_text(text)
    assert seconds == long_wait_seconds([str(file)])
