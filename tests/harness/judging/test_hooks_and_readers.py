"""What a hook of the contract does not show, or a reader could not read, is not taken for right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.baseline import came_to_nothing
from sinkproof.campaign.campaign_budget import NEVER_READ, conclude
from sinkproof.campaign.found_again.confirmation import confirm
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.judging.checkpoint_rows import is_marked
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECTS = Path(__file__).parents[2] / "support/read_in_between.py"
Run = Callable[..., RunResult]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """The result of one schedule, in the simulated shell or in processes."""

    def of(name: str, *, schedule: str = "no-fault", shell: str = "simulated", beside: bool = False) -> RunResult:
        scratch = Scratch(name="read", path=tmp_path, shell=shell)
        contract = load(f"{SUBJECTS}:{name}")
        runner: Any = ScheduleRunner(contract, scratch) if shell == "simulated" else process_runner(contract, scratch)
        return stack.enter_context(runner).run(parse(schedule), concurrent_reader=beside)  # type: ignore[no-any-return]

    with ExitStack() as stack:
        yield of


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Marked", ""),
        ("MarkerUnreadable", "complete(scratch) raised PermissionError: the marker cannot be read"),
        ("MarkedByTexts", "is neither the id of a checkpoint nor (split, offset) of a row"),
        ("VersionStays", "version(scratch) stayed 1 while committed rows changed"),
    ],
)
def test_a_run_without_faults_is_no_basis_if_a_hook_fails_in_it(run: Run, name: str, why: str) -> None:
    baseline = run(name)
    assert (True, ()) == (baseline.finished, baseline.anomalies)
    assert bool(why) is bool(came_to_nothing(baseline))
    assert why in came_to_nothing(baseline)


@pytest.mark.parametrize(
    ("what", "marks"),
    [(3, True), ((0, 7), True), ([0, 7, "key"], True), ("3", False), (("0", "7"), False), ((0,), False), (None, False)],
)
def test_a_marker_calls_ids_of_checkpoints_or_rows_complete(what: Any, *, marks: bool) -> None:
    assert marks is is_marked(what)


def test_where_a_claim_is_about_it_a_reader_reads_between_two_changes_of_files(run: Run) -> None:
    assert {"O4"} == {each.oracle for each in run("OneByOne", beside=True).anomalies}
    assert () == run("OneByOne").anomalies


def test_what_a_reader_saw_beside_living_sinks_stays_if_processes_do_not_show_it(run: Run) -> None:
    result = run("OneByOne", beside=True)
    results = CampaignResults(contract=load(f"{SUBJECTS}:OneByOne"), shell="simulated")
    results.add(result)
    assert ["O4"] == [finding.oracle for finding in results.findings]
    confirm(results, hang_seconds=10.0)
    assert ["O4"] == [finding.oracle for finding in results.findings]


def test_a_reader_that_living_sinks_lock_out_reads_when_they_are_dead(run: Run) -> None:
    usual, killed = (
        run("Early", schedule=schedule, shell="process")
        for schedule in ("no-fault", "sink[0].acknowledge.before#2=kill-job")
    )
    assert (0, ()) == (usual.readings, usual.anomalies)
    assert 1 == killed.readings
    assert "O3" in {each.oracle for each in killed.anomalies}


@pytest.mark.parametrize(("name", "unknowns"), [("Early", [NEVER_READ]), ("VersionStays", [])])
def test_early_rows_for_which_nothing_has_looked_are_unknown(run: Run, name: str, unknowns: list[str]) -> None:
    results = CampaignResults(contract=load(f"{SUBJECTS}:{name}"), shell="process")
    results.add(run(name, shell="process"))
    assert unknowns == conclude(results, seconds=1.0, closure=None).unknowns
