"""The canaries check the certifier: each is convicted of its own sin, and no control is, in every shell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.run import run_campaign
from sinkproof.campaign.simulated_campaign import CampaignStopped, SimulatedCampaign
from sinkproof.campaign.task import Task
from sinkproof.canaries import catalogue as every
from sinkproof.canaries import late_failures as rare
from sinkproof.canaries import try_canaries as kill_table
from sinkproof.canaries.catalogue import CANARIES, CONTROLS, CONTROLS_ON_SPARK, ON_SPARK, ROOT_CAUSES, Canary
from sinkproof.canaries.kill_table import render
from sinkproof.canaries.on_spark import found_out_by
from sinkproof.canaries.try_canaries import (
    CampaignFunction,
    campaign_functions,
    canaries_for,
    try_all,
    try_canary,
    try_control,
)
from sinkproof.certifier.certify import WITHOUT_SPARK
from sinkproof.certifier.perform import explore_subject
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.explorer import ExploredClosure, Explorer
from sinkproof.chaos.schedule import COORDINATOR, STANDARD, Fault, Schedule, parse
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.reports.document import CanaryResult, plain
from sinkproof.reports.progress import SILENT
from sinkproof.sink_adapters.files.file_contracts import FilesContract
from sinkproof.sink_adapters.protocol import Context
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import check, locator_of
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.jobs import ZOMBIE_LATE_JOB

# Attempts that died in this process never close their files: that is what a death is.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
CONTROL_SECONDS = {"simulated": 2.0, "process": 3.0}
FAULTS_MOST = 2
CONVICTED_WITHIN_SECONDS = 30.0  # a fraction of one where nothing else runs
TRIALS = [(canary, shell) for shell in WITHOUT_SPARK for canary in CANARIES if shell in canary.shells]


@pytest.fixture(scope="module")
def campaign_for() -> Iterator[Callable[[Canary, str], CampaignFunction]]:
    """One fork server for all of them."""
    with ExitStack() as stack:
        kinds = {
            shell: stack.enter_context(campaign_functions(canaries_for(shell), shell, progress=SILENT))
            for shell in WITHOUT_SPARK
        }
        yield lambda canary, shell: kinds[shell](canary)


@pytest.mark.parametrize(("canary", "shell"), TRIALS, ids=lambda value: getattr(value, "name", value))
def test_a_canary_is_convicted_of_its_own_sin(
    canary: Canary, shell: str, campaign_for: Callable[[Canary, str], CampaignFunction]
) -> None:
    result = try_canary(canary, shell, run_as=campaign_for(canary, shell))
    assert result.convicted, result.why
    assert result.oracle in canary.oracles
    assert len(parse(result.schedule or "").faults) <= max(FAULTS_MOST, canary.times)


@pytest.mark.slow
@pytest.mark.parametrize("shell", WITHOUT_SPARK)
@pytest.mark.parametrize(("name", "contract"), CONTROLS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_control_is_acquitted(name: str, contract: type, shell: str) -> None:
    result = try_control(name, contract, shell, seconds=CONTROL_SECONDS[shell])
    assert not result.convicted, result.why


def test_each_root_cause_has_a_canary() -> None:
    assert [f"R{number}" for number in range(1, 19)] == list(ROOT_CAUSES)
    assert set(ROOT_CAUSES) == {canary.root_cause for canary in CANARIES}


def test_their_names_tell_them_apart() -> None:
    names = [canary.name for canary in CANARIES] + [name for name, _ in CONTROLS]
    assert sorted(set(names)) == sorted(names)
    assert ON_SPARK <= set(names)


def test_none_of_them_says_where_it_is() -> None:
    """Points are around calls, at lines and at file effects; a canary that called `reach` would help the certifier.
    Those on real services are tried under schedules that are listed, and name their steps.
    """
    on_services = ("cassandra.py", "kafka.py")
    files = [file for file in sorted(Path(every.__file__).parent.glob("*.py")) if file.name not in on_services]
    assert [] == [file.name for file in files if re.search(r"\breach\(", file.read_text())]


def test_each_says_its_sin() -> None:
    """With its root cause first: reports and people read it."""
    silent = [canary.name for canary in CANARIES if not (canary.contract.__doc__ or "").startswith(canary.root_cause)]
    assert [] == silent


# -- sinks that are right for a long time ----------------------------------------------------------


@contextmanager
def laboratory_of(contract: type, folder: Path) -> Iterator[ScheduleRunner]:
    checked = check(locator_of(contract), contract)
    with ScheduleRunner(checked, Scratch(name="rare", path=folder)) as runner:
        yield runner


def crashed_at(*occurrences: int) -> Schedule:
    point = "checkpoint.persist.after"
    return Schedule(tuple(Fault(COORDINATOR, point, occurrence, "kill-job") for occurrence in occurrences))


def test_the_third_crash_is_one_too_many(tmp_path: Path) -> None:
    with laboratory_of(rare.ThreePlaces, tmp_path) as runner:
        for fewer in ((1,), (3,), (1, 2), (1, 3), (2, 3)):
            assert () == runner.run(crashed_at(*fewer)).anomalies, fewer
        assert "O1" in [anomaly.oracle for anomaly in runner.run(crashed_at(1, 2, 3)).anomalies]


@pytest.mark.slow
def test_the_closure_finds_the_third_crash_and_no_earlier_one(tmp_path: Path) -> None:
    """At named points only: lines find it as well, in more states."""
    with laboratory_of(rare.ThreePlaces, tmp_path) as runner:
        world = JobWorld(runner)
        closure = Explorer(world, go_on=lambda closure: not closure.findings).explore()
        crashes = {len(world.schedule(state).faults) for state, _ in closure.findings}
    assert {3} == crashes


@pytest.mark.parametrize(
    ("contract", "harmless", "telling", "oracle"),
    [
        (rare.TenComesBeforeNine, "ids=4", "ids=8", "O3"),
        (rare.LastSubtaskListsFiles, "orders=open+snapshot", "orders=notify", "O1"),
    ],
)
def test_only_one_word_of_the_schedule_tells(
    contract: type, harmless: str, telling: str, *, oracle: str, tmp_path: Path
) -> None:
    with laboratory_of(contract, tmp_path) as runner:
        assert () == runner.run(Schedule()).anomalies
        assert () == runner.run(parse(harmless)).anomalies
        assert [oracle] == [anomaly.oracle for anomaly in runner.run(parse(telling)).anomalies]


# -- the usual campaign ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_the_usual_campaign_finds_it_as_well(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being told where to look first."""
    monkeypatch.setattr(kill_table, "CANARY_SECONDS_MOST", 100.0)
    result = try_canary(canary, "simulated", run_as=run_campaign)
    assert result.convicted, result.why


def test_all_that_a_crash_shows_is_known_at_once_and_counted_once(tmp_path: Path) -> None:
    """Of a state that shows two things, rows lost and no recovery, neither waits for the end of the closure."""
    with laboratory_of(rare.ThreePlaces, tmp_path) as runner:
        results = CampaignResults(contract=runner.contract, shell="simulated")
        kept: list[ExploredClosure[JobState]] = []
        campaign = SimulatedCampaign(runner, results, should_stop=lambda results: bool(results.finding_count["O6"]))
        with pytest.raises(CampaignStopped):
            campaign._close(JobWorld(runner), keep=kept.append)
    (closure,) = kept
    assert {"O1", "O6"} == {anomaly.oracle for _, anomaly in closure.findings}
    assert not closure.complete
    assert Counter(anomaly.oracle for _, anomaly in closure.findings) == results.finding_count


# -- as text ---------------------------------------------------------------------------------------


def test_the_table_is_grouped_by_root_cause_and_names_the_canaries_that_escaped() -> None:
    convicted = CanaryResult(
        name="late", root_cause="R10", convicted=True, seconds=0.25, oracle="O9", schedule="a#1=stop", shell="process"
    )
    escaped = CanaryResult(name="early", root_cause="R5", convicted=False, seconds=1.5, shell="process", why="found O7")
    control = CanaryResult(name="right", root_cause="", convicted=False, control=True, seconds=2.0, shell="process")
    assert [
        "R5: publishes too early, or too late",
        "  early  process    ESCAPED      1.50 s  found O7",
        "R10: an old attempt goes on, unfenced",
        "  late   process    O9           0.25 s  a#1=stop",
        "Controls: nothing is wrong with them",
        "  right  process    acquitted    2.00 s",
        "1 of 2 canaries convicted of their own sin in 1.8 s, 1 of 1 controls acquitted",
    ] == render([plain(row) for row in (convicted, escaped, control)]).splitlines()


# -- on Spark --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_on_spark_as_well() -> None:
    """In one session: starting one takes longer than most convictions."""
    results = try_all("spark", control_seconds=5.0)
    assert len(canaries_for("spark")) + CONTROLS_ON_SPARK == len(results)
    assert [] == [(row.name, row.why) for row in results if row.convicted is row.control]


# -- broken sinks of our own adapters that report no points ----------------------------------------


class Deaf:
    """A sink without points: whatever it is told to reach, it does not."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    def open(self, context: Context) -> None:
        self.sink.open(replace(context, reach=lambda point: None))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


class ForgetsPending(Deaf):
    def open(self, context: Context) -> None:
        super().open(replace(context, restored=(), subtasks_restored=()))


class PublishesInSnapshot(Deaf):
    def snapshot(self, checkpoint_id: int) -> bytes:
        state: bytes = self.sink.snapshot(checkpoint_id)
        self.sink.notify_complete(checkpoint_id)
        return state


class OfFiles:
    """A contract of registered pairs around another sink, on a real folder; its points are file effects, and lines."""

    def __init__(self, pair: str, make: Callable[[Any], Any]) -> None:
        self.label = f"{make.__name__} {pair}"
        self.given, self.make = FilesContract(pair.removeprefix("files/"), disk="real"), make
        for name in ("committed", "residue", "seen", "version", "canonical", "freeze", "thaw"):
            if (call := getattr(self.given, name, None)) is not None:
                setattr(self, name, call)

    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch: Any) -> Any:
        return self.make(self.given.sink(scratch))


@pytest.mark.parametrize(
    ("pair", "make", "oracles"),
    [
        ("files/two-phase", ForgetsPending, {"O1", "O10"}),
        ("files/masked", ForgetsPending, {"O1", "O10"}),
        ("files/two-phase", PublishesInSnapshot, {"O3"}),
        ("files/masked", PublishesInSnapshot, {"O3"}),
        ("files/write-ahead", Deaf, {"O2"}),
        ("files/plain", Deaf, {"O2"}),
        ("files/idempotent", Deaf, {"O3"}),
    ],
)
def test_a_broken_sink_without_points_is_convicted(
    pair: str, make: type[Deaf], oracles: set[str], tmp_path: Path
) -> None:
    contract, deadline = Contract(pair, OfFiles(pair, make)), Deadline(CONVICTED_WITHIN_SECONDS)
    contract.is_ours = True  # in other processes its locator names another contract, so nothing is confirmed there

    def should_stop(results: CampaignResults) -> bool:
        return deadline.over or any(finding.oracle in oracles for finding in results.findings)

    task = Task(locator=pair, shell="simulated", budget_seconds=0)
    outcome = run_campaign(contract, task, folder=tmp_path, progress=SILENT, should_stop=should_stop)
    assert oracles & {finding.oracle for finding in outcome.findings}, outcome.unknowns


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["files/two-phase", "files/masked"])
def test_a_correct_sink_without_points_is_acquitted(pair: str) -> None:
    contract = Contract(pair, OfFiles(pair, Deaf))
    outcome = explore_subject(Task(locator=pair, shell="simulated", budget_seconds=1.0), contract=contract)
    assert [] == [(finding.oracle, finding.schedule, finding.why) for finding in outcome.findings]
    assert [] == outcome.unknowns
    assert [point for point in outcome.result.kills_by_point if point.startswith("file.")]


# -- without assertions --------------------------------------------------------------------------

UNDER_O = """
import json, sys
from sinkproof.canaries.try_canaries import try_all
assert False, "this interpreter asserts"
results = try_all(sys.argv[1], control_seconds=1.0)
print(json.dumps([[row.name, row.control, row.convicted, row.why] for row in results]))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)  # the whole trial in one test: 25 s when nothing else runs
@pytest.mark.parametrize("shell", WITHOUT_SPARK)
def test_nothing_depends_on_assert(shell: str, tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-c", UNDER_O, shell]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    results = json.loads(done.stdout)
    assert len(canaries_for(shell)) + len(CONTROLS) == len(results)
    assert [] == [(name, why) for name, control, convicted, why in results if convicted is control]


def test_on_spark_a_zombie_is_woken_at_both_moments_more_than_once() -> None:
    """How far its successors have come by then is luck; of a death it is not."""
    zombie, death = (
        found_out_by(next(each for each in CANARIES if each.name == name), progress=SILENT)
        for name in ("unfenced zombie", "no flush in snapshot")
    )
    woken = [schedule.job for schedule in zombie]
    assert woken.count(STANDARD) == woken.count(ZOMBIE_LATE_JOB) > 1
    assert 1 == len(death)
