"""Hosts that die, are cut off, or have slow links, in the middle of a job: without Spark: a small driver of tasks
stands in its place. tests/soak has the same with Spark, and many times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest

from sinkproof.chaos.faults.faults_of_hosts import OF_HOSTS
from sinkproof.chaos.schedule import parse
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.chaos.services.spark_cluster.service_relays import ServiceRelays
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.spark_runner import SparkRunner
from sinkproof.generators.feasible import impossible
from sinkproof.pipeline.file_recipes import COUNT
from sinkproof.reference_engine.inputs.file_input import FileInput
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_process import lacking
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

from ...support.tasks_on_hosts import CutHosts, TasksOnHosts, hosts_of
from .conftest import ROWS_PER_FILE, assert_counted_exactly, keys_of, write_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
RIGHT, UNFENCED = "files/two-phase", "sinkproof.canaries.two_phase:UnfencedZombie"
UNSWEPT = "sink[0].write.before#1="  # it has no file yet that its successor could remove
HEALED_EARLY = "sink[0].notify_complete.before#1=cut generation.before#2=heal"
OTHERS = (
    "sink[0].snapshot.after#1=kill-host",
    "sink[1].write.before#2=slow-link",
    "sink[0].acknowledge.before#1=cut-out",
    "sink[0].notify_complete.before#1=cut-in",
    "sink[0].commit.after#1=cut-all",
    "source[0].acknowledge.before#1=cut",
    HEALED_EARLY,
)
TASKS = 4
SECONDS = 60.0
Play = Callable[[str, str], RunResult]


class OnHosts(NamedTuple):
    """`folder`: what all hosts share."""

    cluster: TasksOnHosts
    relays: ServiceRelays
    folder: Path


@pytest.fixture(scope="module")
def on_hosts() -> Iterator[OnHosts]:
    """Three hosts. Where none can be made, one line says so."""
    with scratch_folder() as folder:
        try:
            with NamespaceHosts(1, shared=[folder]):
                pass
        except ServiceUnavailable as unavailable:
            pytest.skip(" ".join(str(unavailable).split()))
        with (
            CutHosts(3, shared=[folder]) as hosts,
            ServiceRelays(hosts) as relays,
            TasksOnHosts(hosts, folder=folder) as cluster,
        ):
            yield OnHosts(cluster, relays, folder)


@pytest.fixture
def play(on_hosts: OnHosts) -> Play:
    """Runs a subject under a schedule."""
    cluster, relays, folder = on_hosts
    target = Path(mkdtemp(dir=folder))

    def run(subject: str, schedule: str) -> RunResult:
        scratch, hosts = Scratch(name="on-hosts", path=target, shell="spark"), hosts_of(cluster, relays)
        with SparkRunner(load(subject), scratch, cluster=cluster, folder=folder, hosts=hosts) as runner:
            return runner.run(parse(schedule))

    return run


def test_a_sink_without_a_fence_is_convicted_by_an_attempt_that_was_cut_off(play: Play) -> None:
    result = play(UNFENCED, UNSWEPT + "cut")
    assert result.finished, result.failure
    assert result.fired, story_of(result)
    assert "O2" in {anomaly.oracle for anomaly in result.anomalies}, story_of(result)
    what = [(actor, what) for _, actor, _, what, _ in result.history]
    assert ("source[0]", "ended") in what[: what.index(("sink[0]", "woken"))]  # its supervisor, which heard nothing


@pytest.mark.longer
def test_a_sink_with_a_fence_delivers_every_row_once_although_an_attempt_was_cut_off(play: Play) -> None:
    assert_right(play(RIGHT, UNSWEPT + "cut"))


def story_of(result: RunResult) -> str:
    return "\n".join(map(str, (*result.anomalies, *result.history)))


def assert_right(result: RunResult) -> None:
    assert result.finished, result.failure
    assert result.fired, story_of(result)
    assert () == tuple(result.anomalies), story_of(result)


@pytest.mark.longer
@pytest.mark.parametrize("schedule", OTHERS)
def test_every_other_fault_of_a_host_loses_and_repeats_nothing(play: Play, schedule: str) -> None:
    result = play(RIGHT, schedule)
    assert_right(result)
    assert result.kills == schedule.count("kill-host")  # counted from wait statuses


@pytest.mark.longer
@pytest.mark.parametrize("how", ["kill-host", "slow-link"])
def test_a_dead_host_or_a_slow_link_does_not_convict_a_sink_without_a_fence(play: Play, how: str) -> None:
    assert_right(play(UNFENCED, UNSWEPT + how))


@pytest.mark.parametrize("kind", OF_HOSTS)
def test_faults_of_hosts_are_refused_where_there_are_none(kind: object, tmp_path: Path) -> None:
    schedule = parse(f"sink[0].write.before#1={kind.word}")  # type: ignore[attr-defined]
    assert "--on spark --master cluster:3" in impossible(schedule, load(RIGHT), "spark")
    assert "--on spark --master cluster:3" in impossible(schedule, load(RIGHT), "process", on_hosts=True)
    assert impossible(schedule, load(RIGHT), "spark", on_hosts=True) == ""


# -- the driver's host, and the end -------------------------------------------------------------


def counting_run(on_hosts: OnHosts, name: str) -> SparkRun:
    rows = on_hosts.folder / f"{name}-rows"
    rows.mkdir()
    write_rows(rows, ROWS_PER_FILE)
    source = FileInput(rows, key="user", value="user", batch_rows=40)
    arguments = {"source": source, "sink": RIGHT, "folder": str(on_hosts.folder / name), "parallelism": 2}
    return SparkRun(
        recipe=COUNT,
        arguments={**arguments, "interval_ms": 20, "pace_ms": 20},
        folder=on_hosts.folder / f"{name}-run",
        silence_seconds=1,
    )


@pytest.mark.longer
def test_the_host_of_the_driver_dies_and_another_driver_goes_on_elsewhere(on_hosts: OnHosts) -> None:
    """The same checkpoint folder on another host: a generation later, every row once."""
    cluster, run = on_hosts.cluster, counting_run(on_hosts, "moved")
    first = takewhile_running(cluster, run)
    cluster.hosts.kill(0)
    cluster.of_driver = 1
    try:
        story = list(cluster.begin(run, tasks=TASKS).happenings(seconds=SECONDS))
    finally:
        cluster.of_driver = 0
    assert max(each["rows"] for each in first if each["what"] == "complete") < 2 * ROWS_PER_FILE
    generations = [each["generation"] for each in story if each["what"] == "generation"]
    assert generations == sorted(set(generations))
    assert len(generations) >= 2  # the reader begins with those of the dead driver
    assert 1 == sum(each["what"] == "finished" for each in story)
    assert_counted_exactly(on_hosts.folder / "moved", keys_of(ROWS_PER_FILE))


def takewhile_running(cluster: TasksOnHosts, run: SparkRun) -> list[Happening]:
    """The events up to the second complete checkpoint; the job goes on."""
    story: list[Happening] = []
    for happening in cluster.begin(run, tasks=TASKS).happenings(seconds=SECONDS):
        story.append(happening)
        if sum(each["what"] == "complete" for each in story) == 2:
            break
    return story


@pytest.mark.longer
def test_a_wish_to_stop_is_found_at_the_next_checkpoint_without_a_message(on_hosts: OnHosts) -> None:
    run = counting_run(on_hosts, "stopped")
    story: list[Happening] = []
    for happening in on_hosts.cluster.begin(run, tasks=TASKS).happenings(seconds=SECONDS):
        story.append(happening)
        if happening["what"] == "complete":
            RunFolder(run.folder).stop_wish.touch()
    assert 1 == sum(each["what"] == "finished" for each in story)
    rows = [each["rows"] for each in story if each["what"] == "complete"]
    assert 0 < rows[-1] < 2 * ROWS_PER_FILE


def test_what_a_master_lacks_is_named() -> None:
    every = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    assert () == lacking(every)
    assert () == lacking({"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"})
    assert ("spark.network.crypto.enabled",) == lacking({"spark.authenticate": "true"})
    assert ("spark.authenticate", "spark.network.crypto.enabled") == lacking({"spark.authenticate": "false"})
