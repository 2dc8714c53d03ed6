"""Sinks that are wrong in a job of their own, without a fault: what no statement of theirs tells apart."""

from __future__ import annotations

from typing import Final

import pytest

from sinkproof.certifier.perform import try_again

from ..support.zoo_campaigns import task_of

pytestmark = pytest.mark.slow
SHOWN_BY_A_JOB: Final = {
    "names_and_days:NumbersRunTogether": "job=twelve-of-both no-fault",
    "names_and_days:EmptyBatchTakesBack": "job=empty-batches no-fault",
    "names_and_days:IdleForADay": "job=long-idle no-fault",
    "names_and_days:BlanksAtTheEnds": "job=edge-case-values no-fault",
    "names_and_days:LikeNumbers": "job=edge-case-values no-fault",
    "names_and_days:ShortTexts": "job=long-values no-fault",
    "names_and_days:PathsOfKeys": "job=edge-case-values no-fault",
    "names_and_days:EmptyKeysAreLeftOut": "job=edge-case-values no-fault",
    "names_and_days:NamedByContent": "job=equal-rows no-fault",
}
ALTERED: Final = ("BlanksAtTheEnds", "LikeNumbers", "ShortTexts")
RIGHT_IN_EACH: Final = "names_and_days:NothingAltered"


@pytest.mark.parametrize(("member", "schedule"), SHOWN_BY_A_JOB.items())
def test_a_job_without_a_fault_shows_what_no_statement_of_its_own_does(member: str, schedule: str) -> None:
    anomalies = try_again(task_of(member, "process", schedule=schedule)).anomalies
    altered = member.rpartition(":")[2] in ALTERED
    assert {"O12" if altered else "O1"} == {anomaly.oracle for anomaly in anomalies}


@pytest.mark.parametrize("schedule", dict.fromkeys(SHOWN_BY_A_JOB.values()))
def test_such_a_job_does_not_convict_a_right_one(schedule: str) -> None:
    assert () == try_again(task_of(RIGHT_IN_EACH, "process", schedule=schedule)).anomalies
