"""Verdicts, claims and grades: what is merged, what is measured, and what is never upheld."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sinkproof.campaign.baseline import came_to_nothing
from sinkproof.campaign.campaign_budget import has_least, seconds_if_slow
from sinkproof.campaign.coverage import CONCURRENT_READER, EVERY_STEP, STEPS_REQUIRED
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.task import Task
from sinkproof.certifier.certify import _missed
from sinkproof.certifier.claim_verdicts import claimed_names, judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.judging.oracle import Anomaly
from sinkproof.judging.verdict_and_exit_codes import Verdict, merge
from sinkproof.reports.document import Finding, PointOutcome, ShellResult, StageResult
from sinkproof.subject.claims import Claim, Grade, names
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.source_files import OwnCode


def test_violated_beats_unknown_beats_upheld_and_nothing_is_unknown() -> None:
    assert Verdict.VIOLATED is merge([Verdict.UPHELD, Verdict.VIOLATED, Verdict.UNKNOWN])
    assert Verdict.UNKNOWN is merge([Verdict.UPHELD, Verdict.UNKNOWN])
    assert Verdict.UPHELD is merge([Verdict.UPHELD])
    assert Verdict.UNKNOWN is merge([])


def test_a_verdict_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="one of three"):
        bool(Verdict.UPHELD)


@pytest.mark.parametrize(
    ("oracles", "grade"),
    [
        ((), Grade.EXACTLY_ONCE),
        (("O5", "O6", "O7", "O9"), Grade.EXACTLY_ONCE),
        (("O3",), Grade.EFFECTIVELY_ONCE),
        (("O2", "O3"), Grade.AT_LEAST_ONCE),
        (("O1",), Grade.AT_MOST_ONCE),
        (("O10", "O3"), Grade.AT_MOST_ONCE),
        (("O1", "O2"), Grade.BROKEN),
    ],
)
def test_the_grade_is_what_was_measured(oracles: tuple[str, ...], grade: Grade) -> None:
    assert grade is Grade.of(set(oracles))


def test_claims_are_named_singly_and_combinations_by_their_own_name() -> None:
    assert ["NO_LOSS", "NO_DUPLICATES"] == names(Claim.EFFECTIVELY_ONCE)
    assert ["EXACTLY_ONCE", "NO_RESIDUE"] == claimed_names(Claim.EXACTLY_ONCE | Claim.NO_RESIDUE)
    assert ["AT_LEAST_ONCE"] == claimed_names(Claim.AT_LEAST_ONCE)


def test_a_job_that_restarts_without_a_fault_says_why(tmp_path: Path) -> None:
    contract = load(f"{Path(__file__).parents[2].joinpath('support/hard_sinks.py')}:InDoubtForEver")
    with ScheduleRunner(contract, Scratch(name="doubt", path=tmp_path)) as runner:
        why = came_to_nothing(runner.run(Schedule()))
    assert "sink[0] is still in doubt about checkpoint 1 after 1,000 ms" in why


def test_points_without_a_fault_for_want_of_time_are_named_with_what_took_the_time() -> None:
    left = StageResult(name="kill at each step", run=20, planned=90)
    shell = ShellResult(shell="process", schedules_run=20, schedules_in_bound=90, kills=3, seconds=80.0, stages=[left])
    points = [f"point{number}" for number in range(9)]
    why = _missed(points, shell)
    assert "ever struck at point0, point1, point2, point3, point4, point5 and 3 more. There was time for 20 sch" in why
    assert "each took 4.0 s" in why
    assert "libraries" in why
    quick = replace(shell, seconds=2.0)
    assert "in the process shell no fault ever struck at point0" == _missed(points[:1], quick)


class Given:
    """A contract that is never run."""

    def __init__(self, claims: Claim, *, grade: str | None = None, rows: str = "append") -> None:
        self.claims, self.grade, self.rows = claims, grade, rows


def progress_of_subject(claims: Claim, *, grade: str | None = None, rows: str = "append") -> SubjectProgress:
    made = SubjectProgress(Contract("some/sink", Given(claims, grade=grade, rows=rows)))
    stops = [PointOutcome(point="write.before", fault="stop", runs=3, outcome="upheld")]
    made.shells.append(
        ShellResult(shell="process", schedules_run=10, schedules_in_bound=10, kills=7, seconds=1.0, outcomes=stops)
    )
    return made


def finding(oracle: str, *, claimed: bool) -> Finding:
    return Finding(oracle=oracle, claimed=claimed, shell="process", schedule="no-fault", why="seen", replay="-")


def test_a_claim_without_findings_is_upheld() -> None:
    result = judge_subject(progress_of_subject(Claim.EXACTLY_ONCE))
    assert ("upheld", "exactly-once") == (result.verdict, result.grade)


def test_a_finding_against_a_claim_violates_it_and_only_it() -> None:
    made = progress_of_subject(Claim.EXACTLY_ONCE)
    made.findings.append(finding("O2", claimed=True))
    result = judge_subject(made)
    assert ("violated", "at-least-once") == (result.verdict, result.grade)
    assert ["NO_DUPLICATES"] == [claim.claim for claim in result.claims if claim.verdict == "violated"]


def test_duplicates_of_a_sink_that_claims_no_more_leave_it_upheld() -> None:
    made = progress_of_subject(Claim.AT_LEAST_ONCE, grade="at-least-once")
    made.findings.append(finding("O2", claimed=False))
    result = judge_subject(made)
    assert ("upheld", "at-least-once") == (result.verdict, result.grade)


def test_a_grade_above_the_expected_one_means_that_the_certifier_is_blind() -> None:
    result = judge_subject(progress_of_subject(Claim.AT_LEAST_ONCE, grade="at-least-once"))
    assert ("unknown", "exactly-once") == (result.verdict, result.grade)
    assert "above the at-least-once" in result.why


def test_a_reason_for_doubt_makes_every_claim_unknown_but_leaves_violations() -> None:
    made = progress_of_subject(Claim.EXACTLY_ONCE)
    made.unknowns.append("no row was committed")
    assert "unknown" == judge_subject(made).verdict
    made.findings.append(finding("O1", claimed=True))
    assert "violated" == judge_subject(made).verdict


@pytest.mark.parametrize("claim", [Claim.SURVIVES_POWER_LOSS, Claim.ATOMIC_CHECKPOINT, Claim.HONEST_MARKERS])
def test_a_claim_that_no_oracle_examines_is_never_upheld(claim: Claim) -> None:
    assert "unknown" == judge_subject(progress_of_subject(claim)).verdict


def test_duplicates_that_cannot_be_seen_are_unknown() -> None:
    assert "unknown" == judge_subject(progress_of_subject(Claim.EFFECTIVELY_ONCE, rows="upsert")).verdict


def test_fencing_is_unknown_until_a_zombie_was_tried() -> None:
    made = progress_of_subject(Claim.FENCES_ZOMBIES)
    assert "upheld" == judge_subject(made).verdict
    made.shells[:] = [ShellResult(shell="simulated", schedules_run=1, schedules_in_bound=1, kills=0, seconds=1.0)]
    assert "unknown" == judge_subject(made).verdict


def test_residue_is_unknown_where_the_contract_cannot_show_it() -> None:
    assert "unknown" == judge_subject(progress_of_subject(Claim.NO_RESIDUE)).verdict


@pytest.mark.parametrize("marks_points", [False, True])
def test_time_is_added_until_the_first_rounds_steps_lines_and_a_zombie_were_tried(
    marks_points: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Given, "marks_points", marks_points, raising=False)
    results = CampaignResults(contract=Contract("some/sink", Given(Claim.EXACTLY_ONCE)), shell="process")
    task = Task(locator="some/sink", shell="process", budget_seconds=1)
    results.coverage.struck.update(STEPS_REQUIRED)
    assert not has_least(results, task)
    results.coverage.cells["write.before", "stop"] = [1, 1, 0]
    assert not has_least(results, task)
    results.steering.required_stages_done = True
    assert has_least(results, task)
    results.coverage.lines_passed.add("line(my_sink.py:1)")
    assert not has_least(results, task)
    for kind in ("kill", "stop"):
        results.coverage.lines_by_kind[kind].add("line(my_sink.py:1)")
        assert not has_least(results, task)
    results.coverage.lines_by_kind["pause"].add("line(my_sink.py:1)")
    assert has_least(results, task)


def test_no_time_is_added_to_suspend_a_sink_at_lines_that_handle_errors(tmp_path: Path) -> None:
    """The verdict does not ask for it, as no schedule does it."""
    (tmp_path / "my_sink.py").write_text("try:\n    commit()\nexcept OSError:\n    roll_back()\n    raise\n")
    results = CampaignResults(contract=Contract("some/sink", Given(Claim.EXACTLY_ONCE)), shell="process")
    results.own_code = OwnCode(files={str(tmp_path / "my_sink.py"): "my_sink.py"})
    results.coverage.struck.update(STEPS_REQUIRED)
    results.coverage.cells["write.before", "stop"] = [1, 1, 0]
    results.steering.required_stages_done = True
    lines = {f"line(my_sink.py:{number})" for number in (2, 3, 4, 5)}
    results.coverage.lines_passed |= lines
    results.coverage.lines_by_kind["kill"] |= lines
    task = Task(locator="some/sink", shell="process", budget_seconds=1)
    assert not has_least(results, task)
    for kind in ("stop", "pause"):
        results.coverage.lines_by_kind[kind].add("line(my_sink.py:2)")
    assert has_least(results, task)
    results.coverage.lines_by_kind["kill"].remove("line(my_sink.py:4)")
    assert not has_least(results, task)


def test_time_is_added_until_a_reader_has_read_concurrently_if_a_claim_needs_it() -> None:
    results = CampaignResults(
        contract=Contract("some/sink", Given(Claim.EXACTLY_ONCE | Claim.HONEST_MARKERS)), shell="process"
    )
    results.coverage.struck.update(STEPS_REQUIRED)
    results.coverage.cells["write.before", "stop"] = [1, 1, 0]
    results.steering.required_stages_done = True
    task = Task(locator="some/sink", shell="process", budget_seconds=1, alone=True)
    assert not has_least(results, task)
    results.coverage.cells[EVERY_STEP, CONCURRENT_READER] = [1, 1, 0]
    assert has_least(results, task)


@pytest.mark.parametrize(("busy", "seconds"), [(0.1, 600.0), (1.5, 900.0), (20.0, 3000.0)])
def test_a_slow_sink_gets_more_than_its_budget_and_more_of_it_on_a_busy_machine(busy: float, seconds: float) -> None:
    assert seconds == seconds_if_slow(busy)


def test_a_finding_from_a_copy_names_the_line_that_was_struck(tmp_path: Path) -> None:
    file = tmp_path / "my_sink.py"
    file.write_text("first = 1\nsecond = 2\n")
    results = CampaignResults(contract=Contract("some/sink", Given(Claim.EXACTLY_ONCE)), shell="simulated")
    results.own_code = OwnCode(files={str(file): "my_sink.py"})
    lost = ((0, 3), (0, 99), (9, 9))  # two of them were never sent
    results.find(Anomaly(oracle="O1", why="a row is lost", lost=lost), parse("sink[0].line(my_sink.py:2)#3=kill-job"))
    results.find(Anomaly(oracle="O2", why="a row too many"), Schedule())
    (at_line, without_faults) = results.findings
    assert at_line.line is not None
    assert ("my_sink.py", 2, "second = 2") == (at_line.line.file, at_line.line.number, at_line.line.text)
    assert ["    1  first = 1", "    2  second = 2"] == at_line.line.around
    assert ["0:3 k0=v0.3"] == at_line.contents
    assert (None, "a row too many") == (without_faults.line, without_faults.why)


# -- claims that need means to be examined -------------------------------------------------------------


def judged(claims: Claim, *faults: str, shell: str = "simulated", **offered: object) -> dict[str, tuple[str, str]]:
    """Claim -> verdict and why, after runs with these faults in one shell."""
    given = SimpleNamespace(claims=claims, rows="append", **offered)
    outcomes = [
        PointOutcome(point="write.before", fault=fault, runs=3, outcome="upheld") for fault in (*faults, "stop")
    ]
    ran = ShellResult(
        shell=shell, schedules_run=9, schedules_in_bound=9, kills=1, seconds=1.0, outcomes=outcomes, rows_committed=24
    )
    result = judge_subject(SubjectProgress(Contract("some/sink", given), [ran]))
    return {claim.claim: (claim.verdict, claim.why) for claim in result.claims}


@pytest.mark.parametrize(
    ("claim", "hook", "fault"),
    [
        (Claim.SURVIVES_POWER_LOSS, "lose_power", "lose-power"),
        (Claim.HONEST_MARKERS, "complete", "watch"),
    ],
)
def test_a_claim_without_the_means_to_examine_it_is_unknown_and_names_them(claim: Claim, hook: str, fault: str) -> None:
    name = claim.name or ""
    assert ("unknown", True) == _has_word(judged(claim, fault)[name], f"no {hook}(scratch)")
    offered = {hook: lambda scratch: []}
    assert ("unknown", True) == _has_word(judged(claim, **offered)[name], "--on simulated")
    assert "upheld" == judged(claim, fault, **offered)[name][0]


def _has_word(result: tuple[str, str], word: str) -> tuple[str, bool]:
    return result[0], word in result[1]


def test_atomic_checkpoints_are_upheld_only_after_a_concurrent_reading() -> None:
    assert "unknown" == judged(Claim.ATOMIC_CHECKPOINT)["ATOMIC_CHECKPOINT"][0]
    assert "upheld" == judged(Claim.ATOMIC_CHECKPOINT, "watch")["ATOMIC_CHECKPOINT"][0]


def test_claims_that_only_the_simulated_shell_examines_are_made_only_there() -> None:
    both, power = Claim.NO_LOSS | Claim.SURVIVES_POWER_LOSS, ("SURVIVES_POWER_LOSS",)
    assert {"NO_LOSS"} == {*judged(both, shell="process", claims_simulated=power)}
    assert {"NO_LOSS", *power} == {*judged(both, shell="simulated", claims_simulated=power)}
    assert {"NO_LOSS", *power} == {*judged(both, shell="process")}


def test_claims_that_need_a_concurrent_reader_are_made_in_every_shell_but_spark() -> None:
    both, whole = Claim.NO_LOSS | Claim.ATOMIC_CHECKPOINT, ("ATOMIC_CHECKPOINT",)
    assert {"NO_LOSS"} == {*judged(both, shell="spark", claims_beside=whole)}
    assert {"NO_LOSS", *whole} == {*judged(both, shell="process", claims_beside=whole)}
    assert {"NO_LOSS", *whole} == {*judged(both, shell="spark")}
