"""A file for each split, which Arrow writes in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sinkproof import Scratch

FILES = 60


def begin(df: Any, batch_id: int, pool: ThreadPoolExecutor) -> list[Future[None]]:
    rows = [(row.split, row.offset) for row in df.collect()]
    parts = {split: [offset for other, offset in rows if other == split] for split, _ in rows}
    return [
        pool.submit(pq.write_table, pa.table({"offset": offsets}), f"{batch_id}-{split}.parquet")
        for split, offsets in parts.items()
    ]


def forget_failures(df: Any, batch_id: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        begin(df, batch_id, pool)


def raise_failures(df: Any, batch_id: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        for future in begin(df, batch_id, pool):
            future.result()


def replace_many(df: Any, batch_id: int) -> None:
    """By threads that make files at the same time, as does the one that has started them."""

    def replace(number: int) -> None:
        new = Path(f"new-{number}")
        new.touch()
        new.replace(f"{batch_id}-{number}.part")

    with ThreadPoolExecutor(4) as pool:
        written = pool.map(replace, range(FILES // 2))
        for number in range(FILES // 2, FILES):
            replace(number)
        list(written)
    raise_failures(df, batch_id)


def committed(scratch: Scratch) -> Iterator[tuple[int, int]]:
    for file in scratch.path.glob("*.parquet"):
        for offset in pq.read_table(file)["offset"].to_pylist():
            yield int(file.stem.partition("-")[2]), offset
