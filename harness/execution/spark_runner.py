"""Runs each schedule as a real Spark job, from the empty target to the end, on a warm session."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, Self

from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.fault_kind import HOSTS
from sinkproof.chaos.faults.faults_of_hosts import KILL_HOST
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault, Schedule, parse
from sinkproof.chaos.services.cache_folders import running_folder
from sinkproof.chaos.services.spark_cluster.service_relays import ServiceRelays
from sinkproof.chaos.services.spark_cluster.standalone_spark import hosts_in
from sinkproof.chaos.services.spark_cluster.standing_cluster import CORES_MOST, KnownCluster, standing_cluster
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.chaos.shared.point_counts import read_counts
from sinkproof.execution.host_faults import ClusterHosts, HostFaults, cluster_hosts, lead_to_services
from sinkproof.execution.run_result import RunResult, restarts_in
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.execution.spark_recipes import SubjectAnywhere
from sinkproof.judging.observer import Observer
from sinkproof.reference_engine.shells.spark.control_messages import SILENCE_SECONDS
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, SparkFailed
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import found_anywhere
from sinkproof.subject.scratch import Scratch, fresh_folder, scratch_folder
from sinkproof.subject.source_files import source_line
from sinkproof.workload.jobs import named_job

RUN_SECONDS: Final = 45.0  # without progress, until a run of the small job counts as hung; a run takes 0.2 s
# On services a run takes two seconds; a killed broker, or host, takes longer to return.
RUN_SECONDS_IF_SLOW: Final = 120.0
TASKS_MOST: Final = 5  # of the widest certifying job
PACE_BESIDE_ZOMBIES_MS: Final = 100  # with less, a job on hosts is over before the attempt that was cut off has gone on
MASTER: Final = f"local[{TASKS_MOST + 1},100000]"


class SparkRunner(ScheduleRunner):
    """Runs schedules on real Spark; no part of a run is simulated."""

    def __init__(
        self,
        contract: Contract,
        scratch: Scratch,
        *,
        cluster: Cluster,
        folder: Path,
        hosts: ClusterHosts | None = None,
        relays: ServiceRelays | None = None,
    ) -> None:
        """`hosts`: those of the cluster, if this certification has started them and may break them; `relays`: how hosts
        reach external systems.
        """
        super().__init__(contract, scratch)
        self.cluster, self.folder, self.hosts = cluster, folder, hosts
        self.relays = hosts.relays if hosts is not None else relays

    def __enter__(self) -> Self:
        super().__enter__()
        self._lead_to_services()
        return self

    def reset(self) -> None:
        super().reset()
        self._lead_to_services()

    def _lead_to_services(self) -> None:
        """`setup` has started them."""
        if self.relays is not None:
            lead_to_services(self.relays, self.scratch.services)

    @property
    def subject(self) -> SubjectAnywhere:
        """For recipes."""
        scratch = self.scratch
        return SubjectAnywhere(
            locator=found_anywhere(self.contract.locator),
            name=scratch.name,
            folder=str(scratch.path),
            settings=dict(scratch.settings),
            services=scratch.services.options,
        )

    def new_run(self, recipe: str, **arguments: Any) -> SparkRun:
        arguments = {"subject": self.subject, **arguments}
        folder = Path(mkdtemp(prefix="run-", dir=self.folder))
        silence = SILENCE_SECONDS if self.hosts is None else self.hosts.silence_seconds
        return SparkRun(recipe=recipe, arguments=arguments, folder=folder, silence_seconds=silence)

    def run(self, schedule: Schedule, *, trace_lines: bool = False, concurrent_reader: bool = False) -> RunResult:
        """`concurrent_reader` has no effect: the target is read before each decision, and at the end."""
        self.reset()
        lines = trace_lines or any(is_line(fault.point) for fault in schedule.faults)
        recipe = "sinkproof.execution.spark_recipes:certifying"
        slow = any(KINDS[fault.kind].needs == HOSTS for fault in schedule.faults)
        pace = {"pace_ms": PACE_BESIDE_ZOMBIES_MS} if slow else {}
        run = self.new_run(recipe, job=schedule.job, files=dict(self.files), lines=lines, **pace)
        RunFolder(run.folder).armed().arm(schedule.faults)
        names = named_job(schedule.job).widest.names
        story, failure = self._follow(run, tasks=len(names) - 1)
        observer = Observer(self.contract, self.scratch, self.ledgers[schedule.job], files=self.files)
        self._observe(observer, story, failure=failure)
        trace = trace_of(run.folder, names)
        self._look_for_residue(observer, run, tasks=len(names) - 1)
        result = self._result_of(schedule, story, observer)
        shutil.rmtree(run.folder, ignore_errors=True)
        return replace(result, names=names, trace=trace)

    def _look_for_residue(self, observer: Observer, run: SparkRun, *, tasks: int) -> None:
        """One more recovery from the final checkpoint, without faults, may still settle what lingers."""
        residue = self.contract.optional("residue")
        if residue is None or not observer.observation.finished or not list(residue(self.scratch)):
            return
        RunFolder(run.folder).armed().arm(())
        self._follow(run, tasks=tasks)
        observer.observation.residue = tuple(map(str, residue(self.scratch)))

    def _follow(self, run: SparkRun, *, tasks: int) -> tuple[list[Happening], str]:
        """All events, and why the run did not end (empty if it did)."""
        story: list[Happening] = []
        is_slow = self.relays is not None or self.scratch.services.breakable()
        execution = self.cluster.begin(run, tasks=tasks)
        seconds = RUN_SECONDS_IF_SLOW if is_slow else RUN_SECONDS
        try:
            with self.faults_of_hosts(run) as note:
                for happening in execution.happenings(seconds=seconds):
                    story.append(happening)
                    note(happening)
        except SparkFailed as error:
            self.cluster.close()  # whatever still runs would write into the next run's target
            return story, str(error)
        given_up = next((each["why"] for each in story if each["what"] == "given up"), "")
        return story, given_up or execution.why

    @contextmanager
    def faults_of_hosts(self, run: SparkRun) -> Iterator[Callable[[Happening], None]]:
        """While they can strike. What it gives is called with each event of the run."""
        if self.hosts is None:
            yield _unheard
            return
        vanish, ledger = self.contract.rows != "append", self.ledgers[STANDARD]
        observer = Observer(self.contract, self.scratch, ledger)
        with HostFaults(self.hosts, RunFolder(run.folder), read=observer.read, rows_vanish=vanish) as faults:
            try:
                yield faults.note
            finally:
                self.cluster.slots = 0 if faults.ever else self.cluster.slots  # executors are waited for anew

    def _observe(self, observer: Observer, story: Sequence[Happening], *, failure: str) -> None:
        seen = observer.observation
        seen.finished, seen.failure = any(each["what"] == "finished" for each in story), failure
        for each in story:
            if each["what"] == "early":
                seen.early += [(_row(row), each["checkpoint"]) for row in each["rows"]]
            elif each["what"] == "zombie":
                seen.zombie_added += [(each["actor"], _row(row)) for row in each["added"]]
                seen.zombie_removed += [(each["actor"], _row(row)) for row in each["removed"]]
        observer.read_at_the_end()

    def _result_of(self, schedule: Schedule, story: Sequence[Happening], observer: Observer) -> RunResult:
        struck = tuple(_fault(each) for each in story if each["what"] == "struck")
        lines = [each["line"] for each in story if each["what"] == "struck"]
        committed, history = len(observer.observation.committed), history_of(story)
        self.note_fields(schedule, observer)
        return RunResult(
            schedule=schedule,
            struck=struck,
            anomalies=self.judge(observer),
            trace=[],
            names=(),
            history=history,
            restarts=restarts_in(history),
            finished=observer.observation.finished,
            failure=observer.observation.failure,
            rows_committed=committed,
            log="\n".join(map(repr, story)).encode(),
            struck_line=source_line(lines[-1], self.files) if struck else None,
            unreadable=observer.observation.unreadable,
            kills=len(deaths(story)),
        )


def _unheard(_: Happening) -> None:
    """There are no hosts to break."""


def _row(row: Sequence[int]) -> tuple[int, int]:
    return row[0], row[1]


def _fault(struck: Happening) -> Fault:
    return parse(struck["fault"]).faults[0]


def deaths(story: Sequence[Happening]) -> list[tuple[Happening, Happening]]:
    """(injection, end of the victim) of each fault that killed; the end is read from the wait status."""
    found = []
    ended = [each for each in story if each["what"] == "ended" and _killed(each["status"])]
    for strike in (each for each in story if each["what"] == "struck"):
        own, parent = strike["pid"], strike["parent"]
        victim = {"kill": own, KILL_HOST: own, "kill-worker": parent}.get(_fault(strike).kind)
        by_pid = (each for each in ended if each["child"] == victim and each["at"] >= strike["at"])
        by_driver = (each for each in ended if each["actor"] == "driver" and each["at"] >= strike["at"])
        end = next(by_driver if _fault(strike).kind == "kill-job" else by_pid, None)
        if end is not None:
            found.append((strike, end))
    return found


def _killed(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def trace_of(folder: Path, names: Sequence[str]) -> list[tuple[int, str]]:
    """The points that each actor passed, each as often as it was passed; the order between actors is not known."""
    found = []
    for actor, name in enumerate(names):
        counts = read_counts(RunFolder(folder).counts_path(name))
        found += [(actor, point) for point, times in counts.items() for _ in range(times)]
    return found


def history_of(story: Sequence[Happening]) -> list[tuple[Any, ...]]:
    """For people: (ms since the beginning, actor, generation, what, detail)."""
    found: list[tuple[Any, ...]] = []
    began = float(story[0]["at"]) if story else 0.0
    generation = 0
    for each in story:
        generation = each.get("generation", generation)
        actor, what, detail = each.get("actor", COORDINATOR), each["what"], None
        if what == "struck":
            fault = _fault(each)
            actor, what, detail = fault.actor, fault.point, fault.kind
        elif what in ("started", "running", "coordinator"):
            continue
        else:
            details = ("checkpoint", "why", "status", "rows")
            detail = next((each[name] for name in details if name in each), None)
        found.append((1000 * (float(each["at"]) - began), actor, generation, what, detail))
    return found


@contextmanager
def fresh_cluster(*, master: str = MASTER) -> Iterator[Cluster]:
    """A cluster in a folder of its own; both are gone in the end."""
    folder = fresh_folder()
    try:
        with Cluster(folder=folder, master=master) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_hosts(count: int, *, shared: Sequence[Path]) -> Iterator[tuple[Cluster, ClusterHosts]]:
    """A cluster of several hosts. `shared`: folders that all of them see, besides those of the runs."""
    folder = fresh_folder()
    seen = [folder, *shared, running_folder(), *map(Path, filter(os.path.isdir, sys.path))]
    try:
        with cluster_hosts(count, tasks=TASKS_MOST, folder=folder / "hosts", shared=seen) as hosts:
            spark, cluster = hosts.spark, Cluster(folder=folder)
            cluster.be_on(spark.master, inside=spark.command(), environment=spark.environment, slots=spark.slots)
            with cluster:
                yield cluster, hosts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def on_standing_hosts(known: KnownCluster) -> Iterator[tuple[Cluster, ServiceRelays]]:
    """A driver on a cluster of `services start`; this certification may not break its hosts."""
    with scratch_folder(home=Path(known.scratch)) as folder, ServiceRelays(known.hosts) as relays:
        cluster, slots = Cluster(folder=folder), known.slots(TASKS_MOST)
        cluster.settings = {CORES_MOST: str(slots)}
        cluster.be_on(known.master, inside=known.inside, environment=known.environment, slots=slots)
        with cluster:
            yield cluster, relays


@contextmanager
def spark_runner_on(
    cluster: Cluster,
    contract: Contract,
    scratch: Scratch,
    *,
    hosts: ClusterHosts | None = None,
    relays: ServiceRelays | None = None,
) -> Iterator[SparkRunner]:
    folder = cluster.folder
    with SparkRunner(contract, scratch, cluster=cluster, folder=folder, hosts=hosts, relays=relays) as runner:
        runner.find_own_files()
        yield runner


@contextmanager
def spark_runner(contract: Contract, scratch: Scratch, *, master: str = MASTER) -> Iterator[SparkRunner]:
    """A runner with a session of its own, and with hosts of its own if the master says so."""
    with ExitStack() as stack:
        hosts: ClusterHosts | None = None
        relays: ServiceRelays | None = None
        if count := hosts_in(master):
            shared = [scratch.path, *found_below(contract.locator)]
            cluster, hosts = stack.enter_context(fresh_hosts(count, shared=shared))
        elif (known := standing_cluster(master)) is not None:
            cluster, relays = stack.enter_context(on_standing_hosts(known))
        else:
            cluster = stack.enter_context(fresh_cluster(master=master))
        yield stack.enter_context(spark_runner_on(cluster, contract, scratch, hosts=hosts, relays=relays))


def found_below(locator: str) -> list[Path]:
    """The folder of a contract that is named by its file."""
    file = Path(found_anywhere(locator).partition(":")[0])
    return [file.parent] if file.is_file() else []
