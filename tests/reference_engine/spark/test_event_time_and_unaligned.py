"""On Spark, too: barriers overtake rows that wait for a slow sink, and windows are fired once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.shared.event_log import Happening
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered, holds_rows
from sinkproof.reference_engine.dataflow.windows import expected_results
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.sink_adapters.protocol import Row

from .conftest import committed_rows

RunJob = Callable[..., tuple[RunFolder, list[Happening]]]
SPLITS, WINDOW_ROWS, WINDOW_MS = 2, 200, 250
ROWS_WITHOUT_END = 1_000_000


@pytest.mark.row("S05")
@pytest.mark.parametrize("timeout_ms", [0, 10])
@pytest.mark.parametrize(
    "schedule",
    ["no-fault", "sink[0].notify_complete.before#2=kill", "sink[1].write.before#25=kill", "checkpoint.notify#3=kill"],
)
def test_exactly_once_with_rows_in_flight(run_job: RunJob, tmp_path: Path, schedule: str, timeout_ms: int) -> None:
    in_flight: list[bool] = []  # of each complete checkpoint, in order

    def enough(folder: RunFolder, story: list[Happening]) -> bool:
        if story[-1]["what"] == "complete":
            record = FolderCheckpointStorage(folder.checkpoints).load(story[-1]["checkpoint"])
            in_flight.append(holds_rows(record))
        return any(in_flight) and is_struck(story) == (schedule != "no-fault")

    arguments = {"folder": str(tmp_path), "timeout_ms": timeout_ms, "rows": ROWS_WITHOUT_END}
    folder, story = run_job("in_flight", arguments, schedule=schedule, enough=enough)
    assert any(in_flight)
    assert is_struck(story) == (schedule != "no-fault")
    lengths = covered(FolderCheckpointStorage(folder.checkpoints).latest())
    expected = Counter((split, at) for split in range(SPLITS) for at in range(lengths[split]))
    assert expected == Counter(row[:2] for row in committed_rows(tmp_path))


def is_struck(story: list[Happening]) -> bool:
    return any(each["what"] == "struck" for each in story)


@pytest.mark.row("S16")
@pytest.mark.parametrize("schedule", ["no-fault", "sink[0].notify_complete.before#2=kill"])
def test_every_window_once_and_whole(run_job: RunJob, tmp_path: Path, schedule: str) -> None:
    run_job("windowed", {"folder": str(tmp_path)}, schedule=schedule)
    read = [Row(split, at, f"k{at % 5}", "v", 10 * at) for split in range(SPLITS) for at in range(WINDOW_ROWS)]
    expected: list[Any] = [tuple(row)[:4] for row in expected_results(read, size_ms=WINDOW_MS)]
    assert Counter(expected) == Counter(committed_rows(tmp_path))
