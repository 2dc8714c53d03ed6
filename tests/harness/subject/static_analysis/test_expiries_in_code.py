"""An expiry that a sink's code sets at a server is found where it is set, if that line has run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.subject.static_analysis.expiries_in_code import expiries_beside, expiries_in, retentions_in

BOTH = {"line(sink.py:4)", "line(sink.py:5)"}


def found(tmp_path: Path, statement: str, *, before: str = "", executed: set[str] = BOTH) -> list[str]:
    file = tmp_path / "sink.py"
    file.write_text(f"{before}\n\ndef publish(self):\n    {statement}\n    self.rows = ['expired', 'TTL of text']\n")
    return expiries_in({str(file): "sink.py"}, executed)


@pytest.mark.parametrize(
    "statement",
    [
        "self.redis.expire('done', 60)",
        "self.redis.set('mark', 1, ex=60)",
        "pipe.setex('mark', 60, 1)",
        "client.execute_command('SET', 'mark', 1, 'EX', 60)",
        "session.execute('INSERT INTO marks (id) VALUES (%s) USING TTL 86400', [1])",
        "session.execute(f'UPDATE marks USING TIMESTAMP 1 AND TTL {self.kept} SET done = true')",
        "self.redis.eval(\"redis.call('PEXPIRE', KEYS[1], 60)\", 1, 'done')",
        "self.redis.eval(\"redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[1])\", 1, 'done', 60)",
        "self.redis.eval(\"redis.pcall('expire', KEYS[1], 60)\", 1, 'done')",
        "client.execute_command('set', 'mark', 1, 'ex', 60)",
        "self.redis.eval(\"redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', redis.call('TIME')[1] - 60)\", 1, 'done')",
        "client.execute_command('SET mark 1 NX EX 60')",
        "client.hexpire('marks', 60, 'done')",
        "self.stream.add_stream(name='rows', duplicate_window=120)",
        "db.execute(\"DELETE FROM done WHERE at < now() - interval '1 hour'\")",
        "db.execute('UPDATE lease SET owner = ? WHERE expires_at <= CURRENT_TIMESTAMP', [me])",
        "db.execute(\"DELETE FROM done WHERE at < datetime('now', '-1 day')\")",
        "q.execute('SELECT part FROM done WHERE UNIX_TIMESTAMP() - at < 3600')",
        "marks.create_index('at', expireAfterSeconds=60)",
    ],
)
def test_what_expires_is_found(tmp_path: Path, statement: str) -> None:
    assert ["line(sink.py:4)"] == found(tmp_path, statement)
    assert [] == found(tmp_path, statement, executed={"line(sink.py:5)"})


@pytest.mark.parametrize(
    "statement",
    [
        "self.redis.set('mark', 1, ex=None)",
        "self.table.execute('CREATE TABLE t (id int) WITH default_time_to_live = 0')",
        "self.session.expire(row)",
        "self.expired = self.expires_at < 5",
        "print('it may expire'); raise OSError('leases expire')",
        "'Docstring: to EXPIRE.'",
        "print('set the example apart')",
        "db.execute('INSERT INTO done (part, at) VALUES (?, now())', [part])",
        "db.execute('UPDATE done SET at = CURRENT_TIMESTAMP WHERE part > ?', [part])",
        "db.execute('CREATE TABLE done (at timestamptz DEFAULT now())')",
    ],
)
def test_what_only_sounds_like_it_is_not(tmp_path: Path, statement: str) -> None:
    assert [] == found(tmp_path, statement)


@pytest.mark.parametrize("imported", ["import redis", "from pymemcache.client import base", "import memcache"])
@pytest.mark.parametrize("statement", ["pipe.set('mark', 1, self.day)", "cache.add('mark', 1, time=60)"])
def test_a_time_without_its_name_counts_beside_a_client_that_takes_one(
    statement: str, imported: str, tmp_path: Path
) -> None:
    assert ["line(sink.py:4)"] == found(tmp_path, statement, before=imported)
    assert [] == found(tmp_path, statement, before="import configparser")
    assert [] == found(tmp_path, "pipe.set('mark', 1, None); pipe.set('mark', 1)", before=imported)


def test_the_clock_of_a_server_is_asked_by_its_client(tmp_path: Path) -> None:
    assert ["line(sink.py:4)"] == found(tmp_path, "at, _ = self.redis.time()", before="import redis")
    assert [] == found(tmp_path, "at = time.time()", before="import redis")
    assert [] == found(tmp_path, "at = loop.time(), datetime.now().time()", before="import redis")


def test_a_text_outside_of_functions_counts_where_one_names_it(tmp_path: Path) -> None:
    before = "SCRIPT = \"redis.call('EXPIRE', KEYS[1], 60)\""
    assert ["line(sink.py:4)"] == found(tmp_path, "self.redis.eval(SCRIPT)", before=before)
    assert [] == found(tmp_path, "self.redis.eval(OTHER)", before=before)


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        ("parts.lua", "-- PSETEX is used\nredis.call('PSETEX', mark, 60000, '1')\n", ["parts.lua:2"]),
        ("parts.lua", "redis.call('SET', mark, '1') -- without EX\n", []),
        ("old/parts.sql", "DELETE FROM done\nWHERE at < now() - interval '1 hour'\n", ["parts.sql:2"]),
        ("others.lua", "redis.call('PSETEX', mark, 60000, '1')\n", []),
        ("parts.txt", "redis.call('PSETEX', mark, 60000, '1')\n", []),
    ],
)
def test_files_of_statements_that_the_code_names_are_looked_through(
    name: str, text: str, places: list[str], tmp_path: Path
) -> None:
    file, beside = tmp_path / "sink.py", tmp_path / name
    file.write_text("SCRIPTS = Path(__file__).with_name('parts.lua')\n")
    beside.parent.mkdir(exist_ok=True)
    beside.write_text(text)
    assert places == expiries_beside({str(file): "sink.py"})


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("topic = {'partitions': 1,\n 'retention.ms': str(DAY)}", [2]),
        ("arguments = {'x-message-ttl': 60_000}", [1]),
        ("run('kafka-topics.sh --create --config retention.ms=86400000')", [1]),
        ("topic = {'retention.ms': '-1'}", []),
        ("topic = {'retention.ms': -1, **others}", []),
        ("run('kafka-topics.sh --create --config retention.ms=-1')", []),
        ("print('set retention.ms of the topic')", []),
    ],
)
def test_messages_that_a_broker_deletes_after_a_time_are_found(tmp_path: Path, code: str, lines: list[int]) -> None:
    """Wherever they are set: a topic is often made before the job."""
    file = tmp_path / "topics.py"
    file.write_text(code + "\n")
    assert [f"topics.py:{line}" for line in lines] == retentions_in({str(file): "topics.py"})
