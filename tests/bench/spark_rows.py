"""What an independent reader sees of the two-phase file sink, by the ten million rows: is each of them there once?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet

Numbers = np.ndarray[Any, np.dtype[Any]]
COLUMNS = pa.schema(
    [("split", pa.int32()), ("offset", pa.int64()), ("key", pa.string()), ("value", pa.string())],
)
IGNORE_OTHERS = pa.json.ParseOptions(explicit_schema=COLUMNS, unexpected_field_behavior="ignore")
FILES_AT_ONCE = 500


def difference(folder: Path, lengths: Mapping[int, int], *, counted: bool) -> str:
    """Of everything below `folder`/committed."""
    return difference_in(sorted(folder.glob("committed/*/*")), lengths, counted=counted)


def difference_in(paths: Sequence[Path], lengths: Mapping[int, int], *, counted: bool) -> str:
    """What is wrong; "" if these files hold exactly the first `lengths[split]` rows of each split, each once.

    `counted`: the values must also number the rows of each key from 1, without a gap.
    """
    seen = {split: np.zeros(length, dtype=bool) for split, length in lengths.items()}
    rows, numbers = 0, Numbering()
    for table in tables_of(paths):
        rows += table.num_rows
        splits, offsets = numbers_of(table.column("split")), numbers_of(table.column("offset"))
        for split in np.unique(splits).tolist():
            mine = offsets[splits == split]
            if split not in seen or int(mine.max()) >= len(seen[split]):
                return f"split {split}: offset {int(mine.max())} is there, but was never read"
            seen[split][mine] = True
        if counted:
            numbers.add(table)
    lost = sum(int((~of).sum()) for of in seen.values())
    repeated = rows - sum(lengths.values()) + lost
    if lost or repeated:
        return f"{lost} rows are lost, {repeated} are there again"
    return numbers.problem()


class Numbering:
    """Where rows are counted by key: the counts of each key."""

    def __init__(self) -> None:
        self.of: dict[str, list[Numbers]] = {}

    def add(self, table: pa.Table) -> None:
        keys = table.column("key").combine_chunks().dictionary_encode()
        counts = numbers_of(pc.cast(table.column("value"), pa.int64()))
        codes = numbers_of(keys.indices)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(keys.dictionary) + 1))
        for code, key in enumerate(keys.dictionary.to_pylist()):
            self.of.setdefault(key, []).append(counts[order[ends[code] : ends[code + 1]]])

    def problem(self) -> str:
        for key, parts in self.of.items():
            counts = np.sort(np.concatenate(parts))
            if not np.array_equal(counts, np.arange(1, len(counts) + 1)):
                return f"key {key}: its {len(counts)} rows are not numbered from 1 to {len(counts)}"
        return ""


def tables_of(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """A few hundred files at a time."""
    for start in range(0, len(paths), FILES_AT_ONCE):
        some = paths[start : start + FILES_AT_ONCE]
        tables = [table_of(path) for path in some if path.stat().st_size]
        if tables:
            yield pa.concat_tables(tables)


def table_of(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path, columns=COLUMNS.names).cast(COLUMNS)
    if path.suffix in (".json", ".jsonl"):
        return pa.json.read_json(path, parse_options=IGNORE_OTHERS)
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_all().select(COLUMNS.names)


def numbers_of(column: Any) -> Numbers:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.frombuffer(array.buffers()[1], f"i{array.type.bit_width // 8}")[array.offset :][: len(array)]


if __name__ == "__main__":  # for callers that must not keep the memory. Arguments: folder, lengths as JSON
    lengths = json.loads(sys.argv[2])
    print(
        difference(Path(sys.argv[1]), {int(split): length for split, length in lengths.items()}, counted=True), end=""
    )
