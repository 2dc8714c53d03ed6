"""One Spark session for all tests of a pytest worker, and what reads the files that its jobs write."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, SparkFailed
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.subject.scratch import fresh_folder

HERE = Path(__file__).parent
RUN_SECONDS = 600.0  # only a hang takes as long
FOUR = ("split", "offset", "key", "value")
ROWS_PER_FILE = 2000  # of an input of two files


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A session takes seconds to start, and Java to be there."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The processes that Spark starts find jobs_under_test.py, and so do we."""
    before, folder = os.environ.get("PYTHONPATH"), fresh_folder()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *([before] if before else [])])
    sys.path.insert(0, str(HERE))
    made = Cluster(folder=folder)
    try:
        made.start()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
        sys.path.remove(str(HERE))
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two files of JSON lines; the keys of each are known."""
    folder = tmp_path / "rows"
    folder.mkdir()
    write_rows(folder, ROWS_PER_FILE)
    return folder


def keys_of(count: int) -> dict[int, list[str]]:
    return {split: [f"user-{(7 * at + split) % 13}" for at in range(count)] for split in (0, 1)}


def write_rows(folder: Path, count: int) -> None:
    for split, keys in keys_of(count).items():
        lines = [json.dumps({"n": at, "user": key}) for at, key in enumerate(keys)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def run_job(cluster: Cluster, tmp_path: Path) -> Callable[..., tuple[RunFolder, list[Happening]]]:
    """Runs a recipe of jobs_under_test to its end, or until `enough`, under a schedule; what happened, and where."""
    numbers = count(1)

    def run(
        recipe: str,
        arguments: Mapping[str, Any],
        *,
        schedule: str = "no-fault",
        network: str = "unix",
        enough: Callable[[RunFolder, list[Happening]], bool] = lambda folder, story: False,
    ) -> tuple[RunFolder, list[Happening]]:
        wanted = SparkRun(
            recipe=f"jobs_under_test:{recipe}",
            arguments=arguments,
            folder=tmp_path / f"run-{next(numbers)}",
            network=network,
        )
        folder = RunFolder(wanted.folder)
        folder.armed().arm(parse(schedule).faults)
        execution = cluster.begin(wanted, tasks=len(wanted.deployment().job.widest.subtasks))
        story: list[Happening] = []
        try:
            for happening in execution.happenings(seconds=RUN_SECONDS):
                story.append(happening)
                if enough(folder, story):
                    execution.stop()
            return folder, story
        except SparkFailed as error:
            evidence = f"{error}\n{cluster.log}"
            cluster.close()  # processes that still run would write into the next test
            pytest.fail(evidence)

    return run


def committed_rows(folder: Path) -> list[tuple[int, int, str, str]]:
    """What the two-phase file sink shows, sorted: with the same row twice if it is there twice."""
    lines = [line for path in folder.glob("committed/sink/*.jsonl") for line in path.read_text().splitlines()]
    return sorted(tuple(json.loads(line)[name] for name in FOUR) for line in lines)  # type: ignore[misc]


def assert_counted_exactly(folder: Path, keys_of: Mapping[int, list[str]]) -> None:
    """Each row of the input once, and the rows of each key numbered without a gap. `keys_of`: by split, in order."""
    rows = committed_rows(folder)
    expected = [(split, offset, key) for split, keys in sorted(keys_of.items()) for offset, key in enumerate(keys)]
    assert expected == [row[:3] for row in rows]
    numbers = defaultdict(list)
    for _, _, key, value in rows:
        numbers[key].append(int(value))
    assert all(list(range(1, len(of) + 1)) == sorted(of) for of in numbers.values())
