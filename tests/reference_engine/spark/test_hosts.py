"""A job on a cluster of three hosts: each is a network namespace with files of its own; one of them is killed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.chaos.services.spark_cluster.standalone_spark import StandaloneSpark
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.pipeline.file_recipes import COUNT
from sinkproof.reference_engine.inputs.file_input import FileInput
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, TooFewSlots, UnfitHosts

from .conftest import assert_counted_exactly, keys_of, write_rows

TASKS = 4
ROWS_PER_FILE = 4000
SECONDS = 600.0  # without an end; an executor takes ten to start on a busy machine
EXECUTORS_SECONDS = 300.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """Each worker has room for the whole job. Where no hosts can be made, one line says so, and nothing is run."""
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "shared").mkdir()
    try:
        with NamespaceHosts(1, shared=[folder / "shared"]):
            pass
    except ServiceUnavailable as unavailable:
        pytest.skip(" ".join(str(unavailable).split()))
    with StandaloneSpark(2, cores=TASKS, folder=folder / "spark", shared=[folder / "shared"]) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(hosts: StandaloneSpark) -> Iterator[Cluster]:
    made = Cluster(folder=hosts.folder / "driver", executors_seconds=EXECUTORS_SECONDS)
    made.be_on(hosts.master, inside=hosts.command(), environment=hosts.environment, slots=hosts.slots)
    with made:
        yield made


def counting_run(shared: Path, name: str) -> SparkRun:
    rows = shared / f"{name}-rows"
    rows.mkdir()
    write_rows(rows, ROWS_PER_FILE)
    source = FileInput(rows, key="user", value="user", batch_rows=40)
    arguments = {"source": source, "sink": "files/two-phase", "folder": str(shared / name), "parallelism": 2}
    return SparkRun(
        recipe=COUNT, arguments={**arguments, "interval_ms": 20, "pace_ms": 10}, folder=shared / f"{name}-run"
    )


def test_a_host_is_cut_off_and_healed_and_no_row_is_lost_or_repeated(hosts: StandaloneSpark, cluster: Cluster) -> None:
    """Nothing on it dies, and no connection ends by itself: the silence is noticed."""
    run = counting_run(hosts.hosts.shared[0], "cut")
    execution = cluster.begin(run, tasks=TASKS)
    story: list[Happening] = []
    try:
        for happening in execution.happenings(seconds=SECONDS):
            if happening["what"] == "complete" and not story:
                hosts.hosts.cut(2)
            if happening["what"] == "failed":
                hosts.hosts.heal(2)
            if story or happening["what"] in ("complete", "failed"):
                story.append(happening)
    finally:
        hosts.hosts.heal(2)
    assert ["failed"] == [each["what"] for each in story if each["what"] in ("failed", "running", "finished")][:1]
    assert 1 == sum(each["what"] == "finished" for each in story)
    cluster.slots = 0  # Spark has lost an executor: the next run waits until it is back
    assert 1 <= sum(each["what"] == "generation" for each in story)
    assert_counted_exactly(hosts.hosts.shared[0] / "cut", keys_of(ROWS_PER_FILE))


def test_a_host_dies_and_no_row_is_lost_or_repeated(hosts: StandaloneSpark, cluster: Cluster) -> None:
    run = counting_run(hosts.hosts.shared[0], "out")
    execution = cluster.begin(run, tasks=TASKS)
    story: list[Happening] = []
    host, killed = 0, list[int]()
    for happening in execution.happenings(seconds=SECONDS):
        story.append(happening)
        if happening["what"] == "complete" and not killed:
            started = {each["pid"] for each in story if each["what"] == "started"}
            # a busy machine may have lost an executor: then all subtasks are on the other host
            host = next(host for host in (2, 1) if started & {*hosts.hosts.processes(host)})
            killed = hosts.kill_host(host)
    assert started & set(killed)
    assert [] == hosts.hosts.processes(host)
    assert 2 <= sum(each["what"] == "generation" for each in story)
    assert 1 == sum(each["what"] == "finished" for each in story)
    assert [] == [each for each in story if each["what"] == "refused" and not _died_before_its_proof(each)]
    assert_counted_exactly(hosts.hosts.shared[0] / "out", keys_of(ROWS_PER_FILE))


def _died_before_its_proof(refusal: Happening) -> bool:
    """A subtask of the killed host may be in the middle of its handshake."""
    return refusal["why"].endswith("the connection before it had proved anything")


def test_a_folder_that_is_not_shared_is_refused_before_anything_starts(
    hosts: StandaloneSpark, cluster: Cluster, tmp_path: Path
) -> None:
    run = SparkRun(recipe=COUNT, arguments={}, folder=tmp_path / "run")
    with pytest.raises(UnfitHosts, match="is not shared with"):
        cluster.begin(run, tasks=TASKS)
    assert ["points"] == [path.name for path in (tmp_path / "run").iterdir()]


def test_executors_are_waited_for_and_their_lack_is_an_error(hosts: StandaloneSpark, cluster: Cluster) -> None:
    said: list[str] = []
    cluster.say, cluster.executors_seconds = said.append, 0.5
    try:
        with pytest.raises(TooFewSlots, match="slots, and the job has 100 tasks"):
            cluster.begin(SparkRun(recipe=COUNT, arguments={}, folder=hosts.hosts.shared[0] / "none"), tasks=100)
    finally:
        cluster.executors_seconds = EXECUTORS_SECONDS
    assert said
    assert said[0].endswith("of 100 slots, for 0 s at most")


@pytest.mark.slow
def test_hosts_end_with_what_holds_them_and_share_one_folder(tmp_path: Path) -> None:
    with NamespaceHosts(3, shared=[tmp_path]) as made:
        run_on(made, 1, f"touch {tmp_path}/from-1; touch /tmp/own; sleep 600 >/dev/null 2>&1 &")
        assert ["from-1"] == os.listdir(tmp_path)
        assert "own" not in run_on(made, 2, "ls /tmp")
        assert "from-1" in run_on(made, 2, f"ls {tmp_path}")
        assert "default" not in run_on(made, 1, "ip route")
        left = made.processes(1)
        assert left
        networks = {os.readlink(f"/proc/{holder.pid}/ns/net") for holder in made.holders}
    for entry in Path("/proc").iterdir():
        assert not entry.name.isdigit() or network_of(entry) not in networks


def run_on(hosts: NamespaceHosts, host: int, script: str) -> str:
    command = hosts.command(host, "sh", "-c", script)
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout


def network_of(process: Path) -> str:
    try:
        return os.readlink(process / "ns" / "net")
    except OSError:
        return ""
