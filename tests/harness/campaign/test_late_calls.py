"""A call of a replaced attempt takes effect late, and is the last thing that the attempt does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.generators import late_calls, lines_never_run, single_faults
from sinkproof.reference_engine.shells.process.watched_attempt import ACTS
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

from ...support.traces_of_calls import SYNC, WRITE, run_of

SUBJECTS = Path(__file__).parents[2] / "support/disturbed_commits.py"
SENDTO = "syscall(sendto socket)"
STAGES = [stage for stage in NATIVE_CODE if stage.name.startswith(("outward calls that no line", "refused statements"))]
COMMIT = (
    *("notify_complete.before", "line(a.py:1)", WRITE, WRITE, "line(a.py:2)", WRITE, SYNC),
    "notify_complete.after",
)


@contextmanager
def runner_of(name: str) -> Iterator[ProcessRunner]:
    with (
        scratch_folder() as folder,
        process_runner(load(f"{SUBJECTS}:{name}"), Scratch(name="late", path=folder, shell="process")) as runner,
    ):
        yield runner


def test_of_each_call_that_a_commit_makes_after_a_line_the_first_lands_late() -> None:
    result = run_of("line(a.py:1)", SYNC, *COMMIT, "line(a.py:3)", WRITE, *COMMIT)
    assert [f"sink[0].{WRITE}#1=land", f"sink[0].{WRITE}#3=land", f"sink[0].{SYNC}#2=land"] == [
        str(schedule) for schedule in late_calls.of_commits(result)
    ]


def test_calls_that_only_recoveries_make_land_late_in_a_recovery() -> None:
    opened = ("open.before", "line(a.py:1)", WRITE, "open.after")
    death = parse("sink[0].notify_complete.after#1=kill-job")
    again = ("open.before", "line(a.py:1)", WRITE, "line(a.py:2)", WRITE, "open.after")
    recovery = replace(run_of(*opened, *COMMIT, *again), schedule=death)
    assert [f"{death} sink[0].{WRITE}#6=land"] == [
        str(schedule) for schedule in late_calls.of_recoveries(recovery, run_of(*opened, *COMMIT))
    ]


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found", "place"),
    [
        ("MarkedParts", {"O1", "O9"}, "sink[0].syscall(openat part-*-*)#1=land"),
        pytest.param("MarkedAndRenamed", set(), "", marks=pytest.mark.longer),
        ("WritesOver", {"O1", "O9"}, "notify_complete.after#1=kill-job sink[0].syscall(openat part-*-*.whole)#1=land"),
        pytest.param("RenamesOver", set(), "", marks=pytest.mark.longer),
    ],
)
def test_each_call_lands_as_the_last_thing_that_a_replaced_attempt_does(name: str, found: set[str], place: str) -> None:
    with runner_of(name) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out(STAGES)
    shown = {finding.oracle for finding in results.findings if place and finding.schedule.endswith(place)}
    assert found == shown == {finding.oracle for finding in results.findings}


def test_of_requests_in_commits_some_of_each_line_overlap_with_those_of_a_successor_or_are_cut() -> None:
    result = run_of("line(a.py:1)", SENDTO, *COMMIT[:2], SENDTO, WRITE, *COMMIT[2:], *COMMIT[:2], SENDTO)
    assert [f"sink[0].{SENDTO}#{number}={kind}" for number in (2, 3) for kind in ("overlap", "kill-halfway")] == [
        str(schedule) for schedule in late_calls.requests_of_commits(result)
    ]


@pytest.mark.parametrize(("client", "found"), [("pymysql", ["lock-timeout"]), ("sqlite3", [])])
def test_locks_are_not_free_in_time_where_a_client_of_such_a_database_is_named(
    client: str, found: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sink.py").write_text(f"import {client}")
    sent = run_of(*COMMIT[:2], SENDTO, *COMMIT[2:], statements=[(SENDTO, 1)])
    schedules = late_calls.struck_late(sent, sent, idle=sent, files=[str(tmp_path / "sink.py")])
    kinds = [schedule.faults[-1].kind for schedule in schedules]
    assert found == [kind for kind in kinds if kind == "lock-timeout"]
    assert 1 == kinds.count("refused-statement")


def test_requests_of_the_first_subtask_meet_those_of_the_other_one_where_both_commit() -> None:
    idle = replace(run_of(*COMMIT[:2], SENDTO, *COMMIT[:2], SENDTO), schedule=Schedule(job="sparse"))
    assert [f"job=sparse sink[0].{SENDTO}#{number}=meet" for number in (1, 2)] == [
        str(schedule) for schedule in late_calls.meeting_requests(idle)
    ]
    of_the_other = replace(idle, names=("sink[1]",))
    assert [] == late_calls.meeting_requests(of_the_other)


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kinds", "is_right"),
    [
        ("InTwoSteps", {"overlap"}, False),
        pytest.param("NotesHalves", {"kill-halfway"}, False, marks=pytest.mark.longer),
        ("AtOnce", {"overlap", "meet", "kill-halfway"}, True),
    ],
)
def test_a_server_has_to_decide_at_once_and_to_refuse_half_a_request(
    name: str, kinds: set[str], is_right: bool
) -> None:
    subject = load(f"{SUBJECTS.with_name('served_at_once.py')}:{name}")
    with scratch_folder() as folder, process_runner(subject, Scratch(name="o", path=folder, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results)
        campaign.look_for_native_calls()
        schedules = [each for each in campaign.late_calls if each.faults[-1].kind in kinds]
        at_once = [runner.run(each) for each in schedules]
    assert kinds == {each.faults[-1].kind for each in schedules}
    assert all(run.fired and run.finished for run in at_once)
    assert {is_right} == {not run.anomalies for run in at_once if not run.resumed_early}


def test_a_request_at_a_call_of_a_command_overlaps_too_and_each_kind_has_its_act() -> None:
    at_calls = {each.faults[0].kind for each in single_faults.otherwise_at([Fault("sink[0]", SENDTO, 1, "kill")])}
    assert {"stop", "error", "land", "overlap", "pause", "unanswered"} == at_calls
    assert [Act.OVERLAP, Act.MEET, Act.KILL_HALFWAY] == [ACTS[kind] for kind in ("overlap", "meet", "kill-halfway")]


def test_what_is_known_of_no_code_is_tried_where_only_many_checkpoints_or_large_values_lead() -> None:
    assert ["hundreds-of-checkpoints", "large-values"] == lines_never_run.jobs_with_new_calls([])
