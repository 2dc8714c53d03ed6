"""`sinkproof run count` on real files: exact after any death and any stop, in any cluster that continues it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.chaos.schedule import parse
from sinkproof.pipeline.output_folder import PipelineError, locked
from sinkproof.pipeline.pipeline_progress import PipelineStatus, StatusLine
from sinkproof.pipeline.pipeline_runner import Beginning, Pipeline, PipelineOutcome, prepare, run
from sinkproof.reference_engine.inputs.file_input import FileInput
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster

from .conftest import ROWS_PER_FILE, assert_counted_exactly, keys_of, write_rows

DEATHS = (  # each follows the one before it
    "sink[0].write.after#2=kill source[1].acknowledge.before#1=kill checkpoint.persist.after#1=kill "
    "sink[1].commit.before#1=kill-worker sink[0].snapshot.after#1=kill checkpoint.notify#1=kill"
)
SECONDS = 300.0


def pipeline_of(rows: Path, *, earlier: Any = (), **options: Any) -> Pipeline:
    source = FileInput(rows, key="user", value="user", batch_rows=40, earlier=earlier)
    job = {"command": "count", "sink": "files/two-phase", "key": "user", "input": "files", "files": source.manifest}
    return Pipeline(source=source, sink="files/two-phase", job=job, interval_ms=10, pace_ms=10, **options)


class Watching(StatusLine):
    """Remembers how far the job is."""

    def __init__(self) -> None:
        self.rows = 0

    def show(self, status: PipelineStatus) -> None:
        self.rows = status.rows


def run_count(cluster: Cluster, rows: Path, out: Path, *, deaths: str = "", stops: bool = False) -> PipelineOutcome:
    """One command's work; `stops`: as soon as a checkpoint covers rows that it has read itself."""
    with locked(out) as folder:
        pipeline = pipeline_of(rows, earlier=(folder.earlier() or {}).get("files", ()))
        beginning = prepare(pipeline, folder)
        assert not beginning.over
        armed, watching = folder.run.armed(), Watching()
        armed.arm(parse(deaths or "no-fault").faults)
        outcome = run(
            *(pipeline, folder, cluster),
            beginning=beginning,
            progress=watching,
            stop_requested=lambda: stops and watching.rows > beginning.rows,
        )
        assert len(deaths.split()) == armed.position[1]
    return outcome


def test_counts_are_exact_though_attempts_the_coordinator_and_a_worker_die(
    cluster: Cluster, rows: Path, tmp_path: Path
) -> None:
    outcome = run_count(cluster, rows, tmp_path / "out", deaths=DEATHS)
    assert ("complete", 2 * ROWS_PER_FILE, 0) == (outcome.state, outcome.rows, outcome.rows_before)
    assert 2 <= outcome.restarts <= len(DEATHS.split())  # one restart may heal two deaths
    assert_counted_exactly(tmp_path / "out", keys_of(ROWS_PER_FILE))


def test_a_stopped_job_goes_on_to_the_end_of_the_input_and_is_over_then(
    cluster: Cluster, rows: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = run_count(cluster, rows, out, stops=True)
    assert ("stopped", True) == (first.state, 0 < first.rows < first.rows_total)
    shown = {split: keys[: offset_of(out, split)] for split, keys in keys_of(ROWS_PER_FILE).items()}
    assert_counted_exactly(out, shown)  # a stop is also a commit

    second = run_count(cluster, rows, out, deaths="source[0].acknowledge.before#1=kill sink[1].open.after#2=kill")
    assert ("complete", first.rows) == (second.state, second.rows_before)
    assert_counted_exactly(out, keys_of(ROWS_PER_FILE))

    with locked(out) as folder:
        pipeline = pipeline_of(rows, earlier=(folder.earlier() or {})["files"])
        assert Beginning(rows=2 * ROWS_PER_FILE, over=True) == prepare(pipeline, folder)


def offset_of(out: Path, split: int) -> int:
    lines = [line for path in out.glob("committed/sink/*.jsonl") for line in path.read_text().splitlines()]
    return sum(json.loads(line)["split"] == split for line in lines)


@pytest.mark.slow
def test_an_end_at_once_and_the_death_of_driver_and_jvm_lose_nothing(
    cluster: Cluster, rows: Path, tmp_path: Path
) -> None:
    out, others = tmp_path / "out", descendants(os.getpid(), parents_of_all())  # a broker of other tests, say
    with locked(out) as folder:
        pipeline, watching = pipeline_of(rows), Watching()
        beginning = prepare(pipeline, folder)

        def impatient() -> bool:
            if watching.rows:
                raise KeyboardInterrupt
            return False

        with pytest.raises(KeyboardInterrupt):
            run(pipeline, folder, cluster, beginning=beginning, progress=watching, stop_requested=impatient)
    assert set() == set(descendants(os.getpid(), parents_of_all())) - set(others)
    outcome = run_count(cluster, rows, out, deaths="sink[0].snapshot.after#2=kill-job")
    assert ("complete", True) == (outcome.state, outcome.rows_before > 0)
    assert_counted_exactly(out, keys_of(ROWS_PER_FILE))


def test_an_input_that_has_grown_is_read_on_and_a_command_that_died_at_the_end_is_settled(
    cluster: Cluster, rows: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run_count(cluster, rows, out)
    with locked(out) as folder:  # as if it had been killed after the last decision, before any process was notified
        folder.keep({**(folder.earlier() or {}), "finished": 0})
    settled = run_count(cluster, rows, out)
    assert ("complete", 0) == (settled.state, settled.rows - settled.rows_before)

    write_rows(rows, ROWS_PER_FILE + 500)
    grown = run_count(cluster, rows, out)
    assert ("complete", 1000) == (grown.state, grown.rows - grown.rows_before)
    assert_counted_exactly(out, keys_of(ROWS_PER_FILE + 500))


def test_a_row_that_cannot_be_read_ends_the_command_in_the_inputs_words(
    cluster: Cluster, rows: Path, tmp_path: Path
) -> None:
    lines = (rows / "1.jsonl").read_text().splitlines()
    (rows / "1.jsonl").write_text("\n".join([*lines[:1500], "{broken", *lines[1500:]]))
    with pytest.raises(PipelineError, match=r"1\.jsonl:1501: no JSON"):
        run_count(cluster, rows, tmp_path / "out")


def test_more_tasks_than_slots_are_refused(cluster: Cluster, rows: Path, tmp_path: Path) -> None:
    pipeline = pipeline_of(rows, parallelism=5)
    with locked(tmp_path / "out") as folder, pytest.raises(PipelineError, match="offers 6 slots, and the job has 7"):
        run(pipeline, folder, cluster, beginning=prepare(pipeline, folder), progress=StatusLine())


# -- which folder ----------------------------------------------------------------------------------


def test_a_folder_has_one_job_and_one_command_at_a_time(rows: Path, tmp_path: Path) -> None:
    out, pipeline = tmp_path / "out", pipeline_of(rows)
    with locked(out) as folder:
        prepare(pipeline, folder)
        with pytest.raises(PipelineError, match=f"process {os.getpid()}"), locked(out):
            pass
        another = Pipeline(source=pipeline.source, sink="files/masked", job={**pipeline.job, "sink": "files/masked"})
        with pytest.raises(PipelineError, match="belongs to another job: its sink was 'files/two-phase'"):
            prepare(another, folder)
    with pytest.raises(PipelineError, match=r"files of something else \(0\.jsonl, 1\.jsonl\)"), locked(rows):
        pass
    with pytest.raises(PipelineError, match="cannot be used as a folder"), locked(rows / "0.jsonl"):
        pass


def test_what_an_earlier_command_left_running_can_decide_nothing_any_more(rows: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "out") as folder:
        prepare(pipeline_of(rows), folder)
        orphan = folder.storage()
        generation = orphan.claim_generation()
        folder.run.stop_wish.touch()
        folder.run.events().record("finished", why="")
        prepare(pipeline_of(rows), folder)
        assert generation < folder.storage().claim_generation()
        assert not folder.run.stop_wish.exists()
        assert [] == folder.run.events_reader().new()
