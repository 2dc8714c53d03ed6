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
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.campaign_budget import run_campaign
from sinkproof.campaign.loop import CampaignStopped
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.canaries import catalogue
from sinkproof.canaries import late_failures as rare
from sinkproof.canaries.catalogue import CANARIES, CONTROLS, CONTROLS_ON_SPARK, ON_SPARK, ROOT_CAUSES, Canary
from sinkproof.canaries.conviction import CampaignFunction, campaign_functions, canaries_for, try_canary, try_control
from sinkproof.canaries.kill_table import render
from sinkproof.canaries.on_spark import convicting_schedules
from sinkproof.canaries.try_canaries import try_all
from sinkproof.certifier.certify import WITHOUT_SPARK
from sinkproof.certifier.perform import explore_subject
from sinkproof.chaos.crash_closure import ExploredClosure, Explorer
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
from sinkproof.workload.job_names import ZOMBIE_LATE_JOB

# Attempts that died in this process never close their files: that is what a death is.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
CONTROL_SCHEDULES = {"simulated": 150, "process": 20}  # most stages have begun by then
FAULTS_MOST = 2
BROKEN_SCHEDULES = 20_000  # at most; dozens convict most
SECONDS_MOST = 600.0  # a bound for hangs only: schedules decide
TRIALS = [(canary, shell) for shell in WITHOUT_SPARK for canary in CANARIES if shell in canary.shells]


@pytest.fixture(scope="module")
def campaign_for() -> Iterator[Callable[[Canary, str], CampaignFunction]]:
    """One fork server for all canaries."""
    with ExitStack() as stack:
        kinds = {
            shell: stack.enter_context(campaign_functions(canaries_for(shell), shell, progress=SILENT))
            for shell in WITHOUT_SPARK
        }
        yield lambda canary, shell: kinds[shell](canary)


@pytest.mark.slow
@pytest.mark.parametrize(("canary", "shell"), TRIALS, ids=lambda value: getattr(value, "name", value))
def test_a_canary_is_convicted_of_its_own_sin(
    canary: Canary, shell: str, campaign_for: Callable[[Canary, str], CampaignFunction]
) -> None:
    result = try_canary(canary, shell, run_as=campaign_for(canary, shell))
    assert result.convicted, result.why
    assert result.oracle in canary.oracles
    assert len(parse(result.schedule or "").faults) <= max(FAULTS_MOST, canary.times)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["simulated", pytest.param("process", marks=pytest.mark.longer)])
@pytest.mark.parametrize(("name", "contract"), CONTROLS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_control_is_acquitted(name: str, contract: type, shell: str) -> None:
    result = try_control(name, contract, shell, seconds=SECONDS_MOST, run_as=in_schedules(CONTROL_SCHEDULES[shell]))
    assert not result.convicted, result.why


def in_schedules(most: int) -> CampaignFunction:
    """A campaign that ends after a number of schedules, whatever the load of the machine."""

    def run_as(*arguments: Any, should_stop: Callable[[CampaignResults], bool], **options: Any) -> ShellOutcome:
        asked = count(1)
        return run_campaign(
            *arguments, should_stop=lambda results: next(asked) >= most or should_stop(results), **options
        )

    return run_as


def test_each_root_cause_has_a_canary() -> None:
    assert [f"R{number}" for number in range(1, 20)] == list(ROOT_CAUSES)
    assert set(ROOT_CAUSES) == {canary.root_cause for canary in CANARIES}


def test_names_of_canaries_and_controls_are_unique() -> None:
    names = [canary.name for canary in CANARIES] + [name for name, _ in CONTROLS]
    assert sorted(set(names)) == sorted(names)
    assert ON_SPARK <= set(names)


def test_no_canary_names_its_points() -> None:
    """Points are around calls, at lines and at file effects; a canary that called `reach` would help the certifier.
    Canaries on real services are tried under listed schedules, and may name their steps.
    """
    on_services = ("cassandra.py", "kafka.py")
    files = [file for file in sorted(Path(catalogue.__file__).parent.glob("*.py")) if file.name not in on_services]
    assert [] == [file.name for file in files if re.search(r"\breach\(", file.read_text())]


def test_each_canary_documents_its_sin() -> None:
    """With its root cause first: reports print it."""
    silent = [canary.name for canary in CANARIES if not (canary.contract.__doc__ or "").startswith(canary.root_cause)]
    assert [] == silent


# -- sinks that fail rarely ------------------------------------------------------------------------


@contextmanager
def runner_of(contract: type, folder: Path) -> Iterator[ScheduleRunner]:
    checked = check(locator_of(contract), contract)
    with ScheduleRunner(checked, Scratch(name="rare", path=folder)) as runner:
        yield runner


def crashed_at(*occurrences: int) -> Schedule:
    point = "checkpoint.persist.after"
    return Schedule(tuple(Fault(COORDINATOR, point, occurrence, "kill-job") for occurrence in occurrences))


def test_three_places_loses_rows_at_the_third_crash_only(tmp_path: Path) -> None:
    with runner_of(rare.ThreePlaces, tmp_path) as runner:
        for fewer in ((1,), (3,), (1, 2), (1, 3), (2, 3)):
            assert () == runner.run(crashed_at(*fewer)).anomalies, fewer
        assert "O1" in [anomaly.oracle for anomaly in runner.run(crashed_at(1, 2, 3)).anomalies]


@pytest.mark.slow
def test_the_closure_finds_the_third_crash_and_no_earlier_one(tmp_path: Path) -> None:
    """At named points only: lines find it as well, in more states."""
    with runner_of(rare.ThreePlaces, tmp_path) as runner:
        world = JobWorld(runner)
        closure = Explorer(world, go_on=lambda closure: not closure.findings).explore()
        crashes = {len(world.schedule(state).faults) for state, _ in closure.findings}
    assert {3} == crashes


@pytest.mark.parametrize(
    ("contract", "harmless", "convicting", "oracle"),
    [
        (rare.TenComesBeforeNine, "ids=4", "ids=8", "O3"),
        (rare.LastSubtaskListsFiles, "orders=open+snapshot", "orders=notify", "O1"),
    ],
)
def test_one_word_of_the_schedule_convicts(
    contract: type, harmless: str, convicting: str, *, oracle: str, tmp_path: Path
) -> None:
    with runner_of(contract, tmp_path) as runner:
        assert () == runner.run(Schedule()).anomalies
        assert () == runner.run(parse(harmless)).anomalies
        assert [oracle] == [anomaly.oracle for anomaly in runner.run(parse(convicting)).anomalies]


# -- the usual campaign ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.longer  # the README's commands try each of them, too
@pytest.mark.parametrize("canary", canaries_for("simulated"), ids=lambda canary: canary.name)
def test_the_usual_campaign_convicts_each_canary(canary: Canary) -> None:
    """Without the stage that begins with the canary's own sin."""
    result = try_canary(canary, "simulated", run_as=run_campaign)
    assert result.convicted, result.why


@pytest.mark.slow
def test_all_anomalies_of_a_state_are_recorded_at_once_and_counted_once(tmp_path: Path) -> None:
    """A state with lost rows and a failed recovery yields both findings before the closure ends."""
    with runner_of(rare.ThreePlaces, tmp_path) as runner:
        results = CampaignResults(contract=runner.contract, shell="simulated")
        kept: list[ExploredClosure[JobState]] = []
        campaign = SimulatedCampaign(runner, results, should_stop=lambda results: bool(results.finding_count["O6"]))
        with pytest.raises(CampaignStopped):
            campaign.close(JobWorld(runner), keep=kept.append)
    (closure,) = kept
    assert {"O1", "O6"} == {anomaly.oracle for _, anomaly in closure.findings}
    assert not closure.complete
    assert Counter(anomaly.oracle for _, anomaly in closure.findings) == results.finding_count


# -- the kill table as text ---------------------------------------------------------------------------------------


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


@pytest.mark.longer  # test_certify.py of Spark has it as a part of a certificate
def test_canaries_are_convicted_and_controls_acquitted_on_spark() -> None:
    """In one session: starting one takes longer than most convictions."""
    results = try_all("spark", control_seconds=5.0)
    assert len(canaries_for("spark")) + CONTROLS_ON_SPARK == len(results)
    assert [] == [(row.name, row.why) for row in results if row.convicted is row.control]


# -- broken sinks of our own adapters that report no points ----------------------------------------


class WithoutPoints:
    """A registered sink that does not report its named points."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    def open(self, context: Context) -> None:
        self.sink.open(replace(context, reach=lambda point: None))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


class ForgetsPending(WithoutPoints):
    def open(self, context: Context) -> None:
        super().open(replace(context, restored=(), subtasks_restored=()))


class PublishesInSnapshot(WithoutPoints):
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "make", "oracles"),
    [
        ("files/two-phase", ForgetsPending, {"O1", "O10"}),
        ("files/masked", ForgetsPending, {"O1", "O10"}),
        ("files/two-phase", PublishesInSnapshot, {"O3"}),
        ("files/masked", PublishesInSnapshot, {"O3"}),
        ("files/write-ahead", WithoutPoints, {"O2"}),
        ("files/plain", WithoutPoints, {"O2"}),
        ("files/idempotent", WithoutPoints, {"O3"}),
    ],
)
def test_a_broken_sink_without_points_is_convicted(
    pair: str, make: type[WithoutPoints], oracles: set[str], tmp_path: Path
) -> None:
    contract = Contract(pair, OfFiles(pair, make))
    contract.is_ours = True  # in other processes its locator names another contract, so nothing is confirmed there

    def should_stop(results: CampaignResults) -> bool:
        return any(finding.oracle in oracles for finding in results.findings)

    task = Task(locator=pair, shell="simulated", budget_seconds=0)
    run_as = in_schedules(BROKEN_SCHEDULES)
    outcome = run_as(contract, task, folder=tmp_path, progress=SILENT, should_stop=should_stop)
    assert oracles & {finding.oracle for finding in outcome.findings}, outcome.unknowns


@pytest.mark.slow
@pytest.mark.longer
@pytest.mark.parametrize("pair", ["files/two-phase", "files/masked"])
def test_a_correct_sink_without_points_is_acquitted(pair: str) -> None:
    contract = Contract(pair, OfFiles(pair, WithoutPoints))
    outcome = explore_subject(Task(locator=pair, shell="simulated", budget_seconds=1.0), contract=contract)
    assert [] == [(finding.oracle, finding.schedule, finding.why) for finding in outcome.findings]
    assert [] == outcome.unknowns
    assert [point for point in outcome.result.kills_by_point if point.startswith("file.")]


# -- without assertions --------------------------------------------------------------------------

UNDER_O = """
import json, sys
from sinkproof.canaries.try_canaries import try_all
assert False, "this interpreter asserts"
results = try_all(sys.argv[1], control_seconds=0.25)
print(json.dumps([[row.name, row.control, row.convicted, row.why] for row in results]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["simulated", pytest.param("process", marks=pytest.mark.longer)])
def test_nothing_depends_on_assert(shell: str, tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-c", UNDER_O, shell]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    results = json.loads(done.stdout)
    canaries = canaries_for(shell)
    controls = [*CONTROLS, *(catalogue.CONTROLS_UNDER_WATCH if any(canary.stages for canary in canaries) else ())]
    assert len(canaries) + len(controls) == len(results)
    assert [] == [(name, why) for name, control, convicted, why in results if convicted is control]


def test_on_spark_a_zombie_resumes_at_both_moments_more_than_once() -> None:
    """The progress of its successors by then depends on timing; a death is tried once."""
    zombie, death = (
        convicting_schedules(next(each for each in CANARIES if each.name == name), progress=SILENT)
        for name in ("unfenced zombie", "no flush in snapshot")
    )
    resumed = [schedule.job for schedule in zombie]
    assert resumed.count(STANDARD) == resumed.count(ZOMBIE_LATE_JOB) > 1
    assert 1 == len(death)
