"""Where a sink's code stores in mapped files, and where it only reads or copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.subject.static_analysis.shared_mappings import shared_mappings_in


def found(tmp_path: Path, statement: str, *, executed: frozenset[str] = frozenset({"line(sink.py:2)"})) -> list[str]:
    file = tmp_path / "sink.py"
    file.write_text(f"def publish(self):\n    {statement}\n    self.rows = ['mmap', 'r+']\n")
    return shared_mappings_in({str(file): "sink.py"}, executed)


@pytest.mark.parametrize(
    "statement",
    [
        "table = numpy.memmap(path, RECORD, 'r+', shape=9)",
        "table = numpy.memmap(path, dtype=RECORD, shape=9)",
        "table = open_memmap(path, mode='w+', dtype=RECORD, shape=9)",
        "table = numpy.load(path, mmap_mode='r+')",
        "table = mmap.mmap(file.fileno(), 0)",
        "table = pyarrow.create_memory_map(path, 4096)",
        "table = pyarrow.memory_map(path, 'r+')",
        "self.env = lmdb.open(path, map_size=1 << 20, writemap=True)",
        "table = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_WRITE)",
        "table = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)",
    ],
)
def test_a_mapping_that_is_written_is_found_where_it_is_made(tmp_path: Path, statement: str) -> None:
    assert ["line(sink.py:2)"] == found(tmp_path, statement)
    assert [] == found(tmp_path, statement, executed=frozenset({"line(sink.py:3)"}))


@pytest.mark.parametrize(
    "statement",
    [
        "table = numpy.memmap(path, RECORD, 'r')",
        "table = numpy.memmap(path, RECORD, mode='c')",
        "table = numpy.load(path, mmap_mode='r')",
        "table = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)",
        "table = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)",
        "table = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)",
        "table = mmap.mmap(-1, 4096)",
        "table = pyarrow.memory_map(path)",
        "table = parquet.read_table(path, memory_map=True)",
        "self.env = lmdb.open(path, map_size=1 << 20)",
        "self.log = Log(shared=True)",
        "self.mmap = path.open('r+')",
    ],
)
def test_what_is_read_or_copied_or_no_file_is_none(tmp_path: Path, statement: str) -> None:
    assert [] == found(tmp_path, statement)
