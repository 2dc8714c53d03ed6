"""Which whole numbers stand in a sink's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.subject.static_analysis.names_in_code import counts_in_bytes, keeps_what_grows_elsewhere, makes_digests
from sinkproof.subject.static_analysis.numbers_in_code import (
    chunk_sizes,
    factors_in,
    factors_of_packed,
    has_number_between,
    numbers_between,
    numbers_in,
    numbers_in_settings,
    sizes_of_parts,
    widths_of_padded_numbers,
)
from sinkproof.subject.static_analysis.waits_in_code import long_wait_seconds


def test_widths_of_padded_numbers_are_those_of_formats_and_of_calls(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text(
        "f'{number:05d}', '%03d' % number, text.zfill(7), text.rjust(4, '0'), f'{number:6d}', '%8s'"
        " f'{number:08}', f'{number:0>9}', f'{number:.02f}', f'{ratio:010.3f}'"
    )
    assert [3, 4, 5, 7, 8, 9] == widths_of_padded_numbers([str(file)])


def test_numbers_are_computed_from_names_for_them(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text(
        "SPLIT_BITS, BITS = 10, 12\nMASK: int = (1 << BITS) - 1\n"
        "class Sink:\n    SIZE = 5 * 1000\n    def id(self, row):\n"
        "        return row.time << (SPLIT_BITS + BITS) | row.split << BITS | row.offset & MASK & Sink.SIZE + 1"
    )
    assert {4095, 4096, 5000, 5001, 22} <= numbers_in(str(file))
    assert [1 << 22, 5001, 5000, 1 << 12, 4095] == factors_in([str(file)], 1000, 1 << 62)


def test_room_of_a_packed_number_is_found(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text(
        "ROOM, BITS = 100, 6\na = checkpoint * ROOM + subtask; b = subtask | checkpoint << BITS; c = 16 * x + y\n"
        "d = x * 50 * y; e = x << 4; f = x + 30; g = x * y + z; h = x - 90 * y; i = 1000 * x + y"
    )
    assert {16, 64, 100} == {*factors_of_packed([str(file)], 12, 126)}


def test_permissions_are_no_numbers(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text("os.open(lock, os.O_CREAT, 0o644); os.mkdir(folder, 0O755); size = 421")
    assert {421} == {number for number in numbers_in(str(file)) if number > 1}
    other = tmp_path / "other_sink.py"
    other.write_text("os.open(lock, os.O_CREAT, 0o644); os.mkdir(folder, 0o755); size = 493")
    assert {493} == {number for number in numbers_in(str(other)) if number > 1}


def test_statuses_of_http_are_no_numbers(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text(
        "RETRIED = {429, 503}\nif reply.status not in (200, 404) or response.getcode() == 412 or status >= 500:\n"
        "    size = 409\nif reply.status_code == codes.ok or count > 300 or kept in (404, 4040):\n    pass\n"
    )
    assert {404, 409, 300, 4040} == {number for number in numbers_in(str(file)) if number > 1}


def test_numbers_that_are_used_like_the_size_of_a_part_come_first(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text(
        "PAGE, LIMIT, SECONDS = 256, 5000, 3600\nfull, rest = divmod(len(rows), PAGE)\nrows[-17:]; at % 33\n"
        "for at in range(0, 9, 65):\n    pass\nif len(rows) > 129 or 9000 > limit or when < 7000:\n    pass\n"
    )
    assert {256, 17, 33, 65, 129, 9} == sizes_of_parts(str(file))
    assert [256, 129, 65, 33, 17, 9, 9000, 7000] == chunk_sizes([str(file)], 10_000, few=8)
    assert [256, 129] == chunk_sizes([str(file)], 1000)


def test_factors_are_large_numbers_and_powers_of_two_by_which_code_shifts(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text(
        "a = (split << 32) + offset; b = split * 10**7 + offset; c = x >> 40; d = y << z; e = w << 3; f = 7"
    )
    assert [1 << 32, 10**7] == factors_in([str(file)], 1000, 1 << 62)


@pytest.mark.parametrize(
    "text",
    [
        "rows[:5000]",
        "rows[-5000:]",
        "SIZE = 5 * 1000",
        "SIZE, HUGE = int(5e3), int(1e400)",
        "class Sink:\n    size = 5000",
        "def write(batch, size=5000): pass",
        "def write(batch):\n    return [batch[at : at + 5000] for at in range(0, 9, 5000)]",
        "sizes = {5000, 7}",
        "query = f'SELECT * FROM staged WHERE part = {part} LIMIT 5000'",
        "TIDY = 'DELETE FROM rows WHERE id <= NEW.id - 5000; END'",
        "size = int(os.environ.get('CHUNK', '5_000'))",
        "KEEP = \"redis.call('LTRIM', KEYS[2], -5000, -1)\"",
    ],
)
def test_a_number_is_found_wherever_it_stands(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sink.py"
    file.write_text(text)
    assert 5000 in numbers_in(str(file))
    assert has_number_between([str(file)], 601, 60_000)
    assert not has_number_between([str(file)], 5001, 60_000)


@pytest.mark.parametrize(
    "text",
    [
        "a, b = 5000.5, b'5000'",
        "a, b, c = 'v5000', '5000.5', 'utf-1600'",
        "a, b = '1970-01-01 00:00', '127.0.0.1:8080/5000'",
        "a, b = connect(port=5432), 'host=127.0.0.1 port=5432 PORT=5433'",
        "def write(batch):\n    'Up to 5000 rows.'",
    ],
)
def test_fractions_names_and_docstrings_are_no_numbers(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sink.py"
    file.write_text(text)
    assert not has_number_between([str(file)], 601, 60_000)


@pytest.mark.parametrize(
    ("name", "text"), [("sink.toml", "rows = 5_000"), (".env", "ROWS=5000"), ("query.sql", "LIMIT 5000;")]
)
def test_a_number_in_a_file_of_settings_beside_it_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "sink.py").write_text("rows = []")
    (tmp_path / "data.csv").write_text("5000")
    assert not has_number_between([str(tmp_path / "sink.py")], 601, 60_000)
    numbers_in_settings.cache_clear()
    (tmp_path / name).write_text(text)
    assert has_number_between([str(tmp_path / "sink.py")], 601, 60_000)


@pytest.mark.parametrize(
    "text",
    [
        "now = int(time.time() * 1000)",
        "now = 1000 * int(datetime.now().timestamp())",
        "now = time.time_ns() // 1000",
        "EPOCH = datetime(1970, 1, 1)",
        "settings = {'host': 'localhost', 'port': 23306}",
        "PORT = 23306",
        "DB_PORT = 23306",
        "client = connect(port=23306)",
        "client = connect(timeout=5000, lock_timeout=5_000, mode=5000)",
    ],
)
def test_what_stands_for_a_time_or_a_port_is_left_out(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sink.py"
    file.write_text(text)
    assert not has_number_between([str(file)], 601, 60_000)


def test_what_counts_in_a_byte_is_known_by_its_type(tmp_path: Path) -> None:
    file = tmp_path / "sink.py"
    file.write_text("import ctypes\nshown = ctypes.c_uint8(1).value")
    assert counts_in_bytes([str(file)])
    (tmp_path / "other.py").write_text("import ctypes\nshown = ctypes.c_uint64(1).value")
    assert not counts_in_bytes([str(tmp_path / "other.py")])


@pytest.mark.parametrize(
    ("text", "grows"),
    [
        ("redis.call('PFADD', KEYS[1], ARGV[1])", True),
        ("client.bf().add(done, part)", True),
        ("redis.call('SSCAN', KEYS[1], cursor)", True),
        ("found = find(part)  # no need to scan", False),
        ("client.execute_command('BF.ADD', done, part)", True),
        ("from pybloom_live import ScalableBloomFilter", True),
        ("cursor, parts = client.sscan('done')", True),
        ("s3.list_objects_v2(Bucket=bucket)", True),
        ("for key in client.scan_iter(match): pass", False),
        ("done.add(part)", False),
    ],
)
def test_sets_that_are_probable_or_listed_by_pages_are_known(tmp_path: Path, text: str, grows: bool) -> None:
    file = tmp_path / "sink.py"
    file.write_text(text)
    assert grows is keeps_what_grows_elsewhere([str(file)])


@pytest.mark.parametrize(
    "text",
    [
        "EXPORT = 1000",
        "settings = {'rows_per_report': 1000}",
        "len(rows) // 1000",
        "int(size) * 1000",
        "rows[:1000]",
        "at = time.time() + 1000",
    ],
)
def test_a_thousand_that_may_count_rows_is_found(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sink.py"
    file.write_text(text)
    assert has_number_between([str(file)], 601, 60_000)


@pytest.mark.parametrize(
    ("text", "makes"),
    [
        ("import zlib\nname = zlib.crc32(row)", True),
        ("from zlib import adler32 as short", True),
        ("name = hash(row)", True),
        ("name = md5(row).hexdigest()[:6]", True),
        ("import mmh3", True),
        ("name = 'crc32', rows.index(row)", False),
        ("hashed = 1", False),
    ],
)
def test_a_digest_is_found(tmp_path: Path, text: str, makes: bool) -> None:
    file = tmp_path / "sink.py"
    file.write_text(text)
    assert makes is makes_digests([str(file)])


@pytest.mark.parametrize(
    ("text", "seconds", "numbers"),
    [
        ('SERVER = Path(__file__).with_name("leases.py")', 31.0, [500, 30]),
        ('SERVER = Path(__file__).with_name("other.py")', 3.0, []),
        ('SERVER = Path(__file__).with_name("torn.py")', 3.0, []),
    ],
)
def test_programs_that_the_code_names_are_code_of_its_own(
    text: str, seconds: float, numbers: list[int], tmp_path: Path
) -> None:
    (tmp_path / "leases.py").write_text("LEASE = 30.0\nKEPT = 500\nLEAST = 30\n")
    (tmp_path / "torn.py").write_text("KEPT = (500\n")
    (tmp_path / "sink.py").write_text(text)
    files = [str(tmp_path / "sink.py")]
    assert seconds == long_wait_seconds(files)
    assert numbers == numbers_between(files, 11, 600)
