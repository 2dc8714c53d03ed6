"""Losses of power without the contract's help: SQLite as its documents say, sinks of files, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.certifier.power_examined import power_not_examined
from sinkproof.chaos.faults import POWER_LOSSES
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.native_calls import power_losses, power_losses_at_steps
from sinkproof.reports.document import OutwardCalls, PowerLosses, ShellResult
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder
from sinkproof.workload.job_names import SPARSE_JOB

SINKS = Path(__file__).parents[2] / "support/native_commits.py"
POWER = tuple(stage for stage in PROCESS_PLAN if stage.name.startswith("power losses, by"))
needs_watch = pytest.mark.usefixtures("watch_of_system_calls")


@contextmanager
def runner_of(name: str) -> Iterator[ProcessRunner]:
    contract = load(f"{SINKS}:{name}")
    with (
        scratch_folder() as folder,
        process_runner(contract, Scratch(name="power", path=folder, shell="process")) as runner,
    ):
        yield runner


def struck(name: str, *places: str, kinds: tuple[str, ...] = POWER_LOSSES) -> dict[str, RunResult]:
    with runner_of(name) as runner:
        runs = {f"{place}={kind}": runner.run(parse(f"{place}={kind}")) for place in places for kind in kinds}
    assert all(result.fired and not result.mapped_across_losses for result in runs.values())
    return runs


def broken(runs: dict[str, RunResult]) -> set[str]:
    return {each.oracle for result in runs.values() for each in result.anomalies}


COMMITTED = "sink[0].notify_complete.after#3"


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NeverForced", "WriteAheadLogForcedLater", "WriteAheadLogNeverForced"])
def test_what_sqlite_has_not_forced_is_lost(mode: str) -> None:
    runs = struck(mode, COMMITTED, kinds=("lose-power",))
    assert {"O8"} == broken(runs)
    assert 1 == sum(result.power_took for result in runs.values())


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["Journalled", "TruncatedJournal", "WriteAheadLog", "JournalRemovalUnforced"])
def test_what_sqlite_has_forced_survives(mode: str) -> None:
    assert set() == broken(struck(mode, COMMITTED, kinds=("lose-power", "lose-tails", "lose-older")))


IN_A_GAP = "job=sparse checkpoint.persist.after#2"  # all that is before has been notified


@needs_watch
@pytest.mark.slow
def test_a_removal_that_is_not_forced_brings_a_journal_back_and_no_state_has_its_rows() -> None:
    assert {"O8"} == broken(struck("JournalRemovalUnforced", IN_A_GAP, kinds=("lose-names",)))
    assert set() == broken(struck("Journalled", IN_A_GAP, kinds=("lose-names", "lose-power")))


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "taken", "found"),
    [("RemovalUnforcedBeforeNothing", 1, {"O8"}), ("RemovalForcedBeforeNothing", 0, set())],
)
def test_a_journals_removal_is_forced_by_extra_only_as_a_checkpoint_without_rows_shows(
    mode: str, taken: int, found: set[str]
) -> None:
    runs = struck(mode, "job=sparse checkpoint.persist.after#3", kinds=("lose-names",))
    assert ([taken], found) == ([result.power_took for result in runs.values()], broken(runs))


@needs_watch
@pytest.mark.slow
def test_losses_are_tried_where_a_checkpoint_has_no_rows() -> None:
    with runner_of("RemovalUnforcedBeforeNothing") as runner:
        losses = power_losses_at_steps(runner.run(Schedule(job=SPARSE_JOB)))
    for occurrence in (1, 2, 3):
        assert parse(f"job=sparse checkpoint.persist.after#{occurrence}=lose-names") in losses
    assert {"sparse"} == {loss.job for loss in losses}


@needs_watch
@pytest.mark.slow
def test_a_sink_that_forces_names_and_no_bytes_is_convicted_and_its_right_sibling_is_not() -> None:
    place = "sink[0].notify_complete.after#3"
    assert {"O8"} == broken(struck("BytesUnforced", place, kinds=("lose-bytes",)))
    assert set() == broken(struck("Forced", place, kinds=("lose-power", "lose-bytes", "lose-names")))


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize("sink", ["TwoPhaseOnDisk", "MaskedOnDisk", "WriteAheadOnDisk"])
def test_our_sinks_of_files_survive_on_a_real_disk(sink: str) -> None:
    places = ("checkpoint.persist.after#2", "sink[1].notify_complete.after#1")
    assert set() == broken(struck(sink, *places, kinds=("lose-power", "lose-names", "lose-newest")))


@needs_watch
@pytest.mark.slow
def test_only_losses_that_take_something_away_are_tried_and_each_state_once() -> None:
    with runner_of("Forced") as runner:
        recorded = runner.run_watched(Schedule(), keeps_forced=True)
    at_calls = [schedule.faults[0] for schedule in power_losses(recorded) if "syscall" in schedule.faults[0].point]
    by_call = {
        point: {fault.kind for fault in at_calls if point in fault.point} for point in ("openat", "write", "fsync .")
    }
    assert set() == by_call["openat"]  # everything before was forced
    assert {"lose-power"} == by_call["write"]  # the file is empty, and its name is not forced
    assert by_call["fsync ."] == {"lose-power"}  # the rename; no bytes are left to be lost


@needs_watch
@pytest.mark.longer
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("sink", "is_right"),
    [
        *((name, True) for name in ("Journalled", "TruncatedJournal", "WriteAheadLog", "Forced", "TwoPhaseOnDisk")),
        *((name, True) for name in ("MaskedOnDisk", "WriteAheadOnDisk")),
        ("JournalRemovalUnforced", False),
        *((name, False) for name in ("NeverForced", "WriteAheadLogForcedLater", "WriteAheadLogNeverForced")),
        *(("BytesUnforced", False), ("RemovalForcedBeforeNothing", True), ("RemovalUnforcedBeforeNothing", False)),
    ],
)
def test_a_whole_stage_says_what_the_documents_say(sink: str, is_right: bool) -> None:
    with runner_of(sink) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out(POWER)
    assert is_right is not results.breaks_a_claim, [finding.schedule for finding in results.findings]
    document = results.coverage.power.document()
    assert document is not None
    assert (document.losses, []) == (document.struck, list(document.mapped))
    assert document.took > 0


def test_survival_is_unknown_where_a_command_changes_files_elsewhere() -> None:
    shell = ShellResult(
        shell="process",
        schedules_run=1,
        schedules_in_bound=1,
        kills=1,
        seconds=1.0,
        power=PowerLosses(losses=3, struck=3, took=1),
        outward=OutwardCalls(calls=1, killed=1, elsewhere=["/var/log/*"]),
    )
    assert power_not_examined(load(f"{SINKS}:Forced"), [shell]).endswith("would survive: /var/log/*")


@pytest.mark.parametrize(
    ("power", "why"),
    [
        (None, "no such run was made"),
        (PowerLosses(unwatched="the kernel lacks it"), "the kernel lacks it"),
        (PowerLosses(losses=3, struck=3, took=1, mapped=["rows"]), "it maps rows into its memory"),
        (PowerLosses(losses=3, struck=3), "took anything away"),
        (PowerLosses(losses=3, struck=2, took=1, left=["x=lose-power"]), "1 losses of power did not strike"),
        (PowerLosses(losses=3, struck=3, took=1), ""),
    ],
)
def test_survival_is_unknown_where_losses_do_not_tell(power: PowerLosses | None, why: str) -> None:
    shell = ShellResult(shell="process", schedules_run=1, schedules_in_bound=1, kills=1, seconds=1.0, power=power)
    said = power_not_examined(load(f"{SINKS}:Forced"), [shell])
    assert why in said
    assert bool(why) is bool(said)
