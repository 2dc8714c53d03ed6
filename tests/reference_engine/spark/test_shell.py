"""The Spark shell as a dataflow engine: counting after a crash, how rows are passed on, which subtask waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest

from sinkproof.chaos.shared.event_log import EventLogReader, Happening
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.dataflow.key_groups import key_group
from sinkproof.reference_engine.dataflow.replayable_sources import decode_offsets
from sinkproof.reference_engine.shells.spark.channels import CREDITS
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder

from .conftest import committed_rows

RunJob = Callable[..., tuple[RunFolder, list[Happening]]]
MEMORY_MOST = 8 << 20  # bytes of growth; without credits all that is read would wait: 66 MB
FLAT_AFTER = 30  # batches: by then everything is imported, and all credits are used


@pytest.mark.row("S13")
def test_after_two_rows_and_a_crash_the_source_goes_on_at_the_third(run_job: RunJob, tmp_path: Path) -> None:
    folder, story = run_job(
        "count_example",
        {"folder": str(tmp_path), "reads": str(tmp_path / "reads")},
        schedule="sink[0].notify_complete.before#1=kill",
    )
    states = FolderCheckpointStorage(folder.checkpoints).load(1).states
    assert ((0, 2),) == decode_offsets(states["source[0]"]["source"])
    assert {key_group("ada"): {"ada": 2}} == {
        int(group): json.loads(state) for group, state in states["sink[0]"]["count"].items()
    }
    assert ["sink[0].notify_complete.before#1=kill"] == [each["fault"] for each in story if each["what"] == "struck"]
    reads = EventLogReader(tmp_path / "reads").new()
    first, second = dict.fromkeys(each["pid"] for each in reads)
    assert [0, 1] == [each["offset"] for each in reads if each["pid"] == first][:2]
    assert [2, 3, 4] == [each["offset"] for each in reads if each["pid"] == second]
    assert [(0, at, "ada", str(at + 1)) for at in range(5)] == committed_rows(tmp_path)


@pytest.mark.row("S14")
def test_rows_are_the_same_chained_over_unix_sockets_and_over_the_network(run_job: RunJob, tmp_path: Path) -> None:
    shown, starts = {}, {}
    ways: dict[str, tuple[bool, str]] = {"chained": (True, "unix"), "unix": (False, "unix"), "tcp": (False, "tcp")}
    for way, (chained, network) in ways.items():
        out = tmp_path / way
        out.mkdir()
        _, story = run_job("handed_over", {"folder": str(out), "chained": chained}, network=network)
        shown[way], starts[way] = committed_rows(out), sum(each["what"] == "started" for each in story)
    assert {"chained": 1, "unix": 3, "tcp": 3} == starts
    assert [(split, offset) for split in (0, 1) for offset in range(500)] == [row[:2] for row in shown["chained"]]
    assert shown["chained"] == shown["unix"] == shown["tcp"]  # one source: the order, and so each count, is the same


@pytest.mark.row("S15")
def test_a_slow_sink_stops_its_source_and_barriers_still_come_through(run_job: RunJob, tmp_path: Path) -> None:
    _, story = run_job("slow_sink", {"log_path": str(tmp_path / "log")})
    events = EventLogReader(tmp_path / "log").new()
    batches = [each for each in events if each["what"] in ("read", "wrote")]
    in_flight = list(accumulate(1 if each["what"] == "read" else -1 for each in batches))
    assert (0, CREDITS) == (in_flight[-1], max(in_flight))  # it was stopped at its bound, and the bound held

    for what in ("read", "wrote"):
        memory = [each["memory"] for each in batches if each["what"] == what][FLAT_AFTER:]
        assert MEMORY_MOST > max(memory) - memory[0], what

    read_by = {each["checkpoint"]: each["rows"] for each in story if each["what"] == "complete"}
    written_by = {each["checkpoint"]: each["rows"] for each in events if each["what"] == "snapshot"}
    assert 5 <= len(read_by)
    assert read_by == {checkpoint: written_by[checkpoint] for checkpoint in read_by}
