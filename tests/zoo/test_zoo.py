"""Sinks as strangers write them: the right ones are acquitted, the wrong ones are convicted of their own sin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.certifier.certify import Options, certify
from sinkproof.certifier.perform import try_again
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.claims import Grade
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ..support.zoo_campaigns import (
    RIGHT_SCHEDULES,
    SHELLS,
    certified,
    explored,
    explored_in_part,
    folder,
    judged,
    locator_of,
    task_of,
)
from .verdicts import (
    AT_LEAST,
    BY_REAL_KILLS,
    EFFECTIVELY,
    EXACTLY,
    LEFT_TO_SIBLINGS,
    REMEMBERING,
    RIGHT,
    UNJUDGED,
    WRONG,
    Sin,
)

pytestmark = [pytest.mark.slow]  # seconds where nothing else runs
WRONG_SCHEDULES: Final = 100_000  # at most: a campaign without an end is no reason to wait for the time limit
UNJUDGED_SCHEDULES: Final = 100  # at most: most come to nothing before the first
FIRST_SCHEDULES: Final = 30  # of a sink that takes 3 s each: in the default budget of 90 s
TRIES: Final = 60  # of a schedule that a busy machine may show once in twenty
DECIDED_BY_THREADS: Final = ("half_done:VotesWithoutTheWorker",)  # its thread may write in time in sixty replays
ONE_IN: Final = 64  # schedules of each stage, where a right sink is tried in the process shell but not certified
LEFT_TO_REAL_DEATHS: Final = (  # a server cannot be copied; no crash is simulated in a thread
    "own_service:Puts",
    "surroundings:WorkerThread",
)


def is_usual(member: str, shell: str) -> bool:
    return shell == "simulated" or member in BY_REAL_KILLS


@pytest.mark.parametrize(
    ("member", "grade", "shell"),
    [
        pytest.param(member, grade, shell, marks=() if is_usual(member, shell) else pytest.mark.longer)
        for member, grade in RIGHT.items()
        for shell in SHELLS
    ],
)
def test_a_right_one_is_not_convicted(member: str, grade: str, shell: str) -> None:
    """In the process shell by a part of every stage without which no verdict is given: each schedule by one member in
    sixty-four. The whole of each stage is `test_a_right_one_is_upheld_in_both_shells`.
    """
    member_number = list(RIGHT).index(member)
    if shell == "simulated":
        outcome = explored(member, shell, should_stop=lambda results, asked: asked >= RIGHT_SCHEDULES)
    else:
        outcome = explored_in_part(
            member,
            should_stop=lambda results, asked: results.steering.required_stages_done,  # the last stage of those
            chosen=lambda schedules: schedules[member_number % min(ONE_IN, len(schedules) or 1) :: ONE_IN],
        )
    result = judged(member, outcome)
    assert [] == [f"{finding.oracle} {finding.schedule}" for finding in result.findings if finding.claimed]
    assert () == tuple(outcome.unknowns)
    assert (shell == "simulated" and member in LEFT_TO_REAL_DEATHS) == bool(outcome.deferred), outcome.deferred
    left = Grade.of({finding.oracle for finding in result.findings}).value
    assert grade == left or (grade == AT_LEAST and left == EFFECTIVELY)  # no death yet
    assert result.grade in ("unknown", left)  # too little of the campaign may have been run for any other


@pytest.mark.parametrize(
    ("member", "sin"),
    [
        pytest.param(member, sin, id=member, marks=pytest.mark.longer if member in LEFT_TO_SIBLINGS else ())
        for member, sin in WRONG.items()
    ],
)
def test_a_wrong_one_is_convicted_of_its_own_sin(member: str, sin: Sin) -> None:
    """In the process shell by those schedules of the campaign that can show the sin; the others are left out."""

    def is_enough(results: CampaignResults, asked: int) -> bool:
        return asked >= WRONG_SCHEDULES or any(map(sin.is_shown_by, results.findings))

    if sin.shell == "simulated":
        outcome = explored(member, sin.shell, should_stop=is_enough)
    else:
        outcome = explored_in_part(
            member,
            should_stop=is_enough,
            chosen=lambda schedules: [schedule for schedule in schedules if sin.may_be_shown_by(schedule)],
        )
    result = judged(member, outcome)
    shown = [finding for finding in result.findings if sin.is_shown_by(finding)]
    assert shown, [f"{finding.oracle} {finding.schedule}" for finding in result.findings]
    assert shown[0].claimed
    assert "violated" == result.verdict
    if sin.oracles == "O6" or member in DECIDED_BY_THREADS:
        return  # seen in a recovery with no further rows, or beside a thread, which no schedule says
    task = task_of(member, sin.shell, schedule=shown[0].schedule)
    again = (try_again(task) for _ in range(TRIES))  # up to the first
    assert any({anomaly.oracle for anomaly in each.anomalies} & {*sin.oracles.split(), "O1"} for each in again)


def test_zombies_within_commits_come_first_so_that_a_slow_sink_is_convicted_in_time() -> None:
    member = "table_versions:TwoSnapshots"
    outcome = explored(member, "process", should_stop=lambda results, asked: asked >= FIRST_SCHEDULES)
    assert {"O2", "O9"} <= {finding.oracle for finding in outcome.findings}


@pytest.mark.parametrize("occurrence", [1, 2, 3])
def test_a_thread_is_struck_where_it_is_between_two_calls(occurrence: int) -> None:
    contract = load(locator_of("half_done:Worker"))
    with folder() as path, process_runner(contract, Scratch(name="zoo", path=path, shell="process")) as runner:
        run_result = runner.run(parse(f"sink[0].file.create#{occurrence}=kill"))
    assert (True, True, (), 24) == (
        run_result.fired,
        run_result.finished,
        run_result.anomalies,
        run_result.rows_committed,
    )


@pytest.mark.parametrize(("member", "shell"), UNJUDGED)
def test_what_cannot_be_judged_is_unknown_and_says_why(member: str, shell: str) -> None:
    result = judged(member, explored(member, shell, should_stop=lambda results, asked: asked >= UNJUDGED_SCHEDULES))
    assert "unknown" == result.verdict
    assert re.search(UNJUDGED[member, shell].replace("()", r"\(\)"), result.why)


@pytest.mark.parametrize(
    "member",
    ["surroundings:StoreElsewhere", "surroundings:OncePerProcess", *REMEMBERING],
)
@pytest.mark.longer
def test_what_the_simulated_shell_cannot_copy_is_left_to_real_kills(member: str) -> None:
    subject, (simulated, _) = certified(member)
    assert simulated.deferred
    assert [] == [f"{finding.oracle} {finding.schedule}" for finding in subject.findings]
    assert EXACTLY == subject.grade
    assert not [claim.why for claim in subject.claims if "could not crash it" in claim.why]


@pytest.mark.longer
@pytest.mark.parametrize(("member", "grade"), RIGHT.items())
def test_a_right_one_is_upheld_in_both_shells(member: str, grade: str) -> None:
    subject, outcomes = certified(member)
    assert [] == [step for outcome in outcomes if not outcome.deferred for step in outcome.never_struck]
    assert ("upheld", grade) == (subject.verdict, subject.grade), subject.why


@pytest.mark.parametrize("member", ["appended_files:TornLine", "sqlite_tables:MarkerInSecondTransaction"])
def test_a_budget_that_ends_before_the_lines_upholds_nothing(member: str, tmp_path: Path) -> None:
    """Their bug sits between two lines, which are struck after all steps."""
    options = Options(shells=("process",), budget_seconds=0.5, canaries=False)
    (subject,) = certify([locator_of(member)], tmp_path, options=options)["subjects"]
    assert "upheld" != subject["verdict"]
