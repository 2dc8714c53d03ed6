"""The comparison of bench and soak finds a lost row, a repeated one, an invented one and a gap in counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from spark_rows import difference
from spark_runs import quantile

from sinkproof.reference_engine.dataflow.columns import GeneratedColumns
from sinkproof.sink_adapters.files.arrow_format import ARROW
from sinkproof.sink_adapters.files.row_formats import JSON_LINES

ROWS = 40
EXACT = [(split, offset) for split in (0, 1) for offset in range(ROWS)]


def write(folder: Path, identities: list[tuple[int, int]], *, values: list[int] | None = None) -> None:
    """Two files; every row has the key `k`."""
    (folder / "committed" / "sink").mkdir(parents=True)
    counts = values or list(range(1, len(identities) + 1))
    rows = [
        {"split": split, "offset": offset, "key": "k", "value": str(count)}
        for (split, offset), count in zip(identities, counts, strict=True)
    ]
    for name, some in (("a", rows[::2]), ("b", rows[1::2])):
        text = "".join(f"{json.dumps(row)}\n" for row in some)
        (folder / "committed" / "sink" / f"{name}.jsonl").write_text(text)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (EXACT, ""),
        (EXACT[:7] + EXACT[8:], "1 rows are lost, 0 are there again"),
        ([*EXACT, EXACT[7]], "0 rows are lost, 1 are there again"),
        ([*EXACT[1:], EXACT[7]], "1 rows are lost, 1 are there again"),
        ([*EXACT, (1, ROWS)], f"split 1: offset {ROWS} is there, but was never read"),
    ],
)
def test_each_row_must_be_read_once(rows: list[tuple[int, int]], said: str, tmp_path: Path) -> None:
    write(tmp_path, rows)
    assert said == difference(tmp_path, {0: ROWS, 1: ROWS}, counted=False)


def test_rows_of_a_key_must_be_numbered_without_a_gap(tmp_path: Path) -> None:
    numbers = list(range(1, len(EXACT) + 1))
    write(tmp_path / "right", EXACT, values=numbers[::-1])
    write(tmp_path / "wrong", EXACT, values=[*numbers[:-1], numbers[-2]])
    lengths = {0: ROWS, 1: ROWS}
    assert "" == difference(tmp_path / "right", lengths, counted=True)
    assert "key k: its 80 rows are not numbered from 1 to 80" == difference(tmp_path / "wrong", lengths, counted=True)


def test_arrow_files_are_read_as_lines_are(tmp_path: Path) -> None:
    (tmp_path / "committed" / "sink").mkdir(parents=True)
    for split, form in ((0, ARROW), (1, JSON_LINES)):
        writer = form.writer()
        batch = GeneratedColumns(splits=2, rows_per_split=ROWS, batch_rows=ROWS).batch(split, 0)
        (tmp_path / "committed" / "sink" / f"part{form.suffix}").write_bytes(writer.add(batch) + writer.finish())
    assert "" == difference(tmp_path, {0: ROWS, 1: ROWS}, counted=False)


def test_quantiles() -> None:
    assert (5.0, 9.0, 9.0) == tuple(
        quantile([float(of) for of in range(9, -1, -1)], share) for share in (0.5, 0.95, 1.0)
    )
