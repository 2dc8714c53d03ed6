"""What a report says of a finding: the steps before the fault, and what all sinks did at the target after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sinkproof.campaign.finding_text import TURNS_SHOWN, effects, row_sent, steps
from sinkproof.certifier.perform import try_again
from sinkproof.chaos.schedule import parse
from sinkproof.execution.run_result import RunResult
from sinkproof.workload.jobs import input_of

from ...support.zoo_campaigns import task_of

NAMES = ("coordinator", "sink[0]", "sink[1]")
PASSED = [
    *((1, "open.before"), (1, "write.after"), (1, "publish.before"), (1, "file.rename")),
    *((1, "line(my_sink.py:9)"), (2, "file.rename"), (0, "generation.after"), (2, "publish.after")),
    *((1, "open.before"), (1, "file.rename"), (2, "notify_complete.after")),
]


def result(schedule: str, *, passed: list[tuple[int, str]] = PASSED) -> RunResult:
    faults = parse(schedule).faults
    return RunResult(
        schedule=parse(schedule),
        struck=faults,
        anomalies=(),
        trace=passed,
        names=NAMES,
        history=[],
        finished=True,
        failure="",
        rows_committed=0,
    )


def test_the_steps_of_the_victim_lead_to_the_fault_and_the_effects_of_all_sinks_follow_it() -> None:
    run = result("sink[0].line(my_sink.py:9)#1=kill")
    assert ["open.before", "write.after", "publish.before", "file.rename", "line(my_sink.py:9)"] == steps(run)
    assert ["sink[1]: file.rename → publish", "sink[0]: open → file.rename"] == effects(run)


def test_nothing_is_said_where_the_place_of_the_fault_is_not_known() -> None:
    never = result("sink[0].line(my_sink.py:9)#2=kill")
    assert ([], []) == (steps(never), effects(never))
    unfired = replace(result("sink[0].file.rename#1=kill"), struck=())
    assert ([], []) == (steps(unfired), effects(unfired))


def test_only_the_first_turns_are_listed() -> None:
    turns = [(1 + number % 2, "file.rename") for number in range(TURNS_SHOWN + 4)]
    listed = effects(result("sink[0].open.before#1=kill", passed=[(1, "open.before"), *turns]))
    assert TURNS_SHOWN + 1 == len(listed)
    assert "and 4 more turns" == listed[-1]


@pytest.mark.slow
def test_a_crash_that_is_a_copy_is_told_from_before_the_crash() -> None:
    """The run of the copy begins with the recovery, which passes the same point once more."""
    schedule = "sink[0].notify_complete.after#1=kill-job"
    run = try_again(task_of("renamed_files:LinkedFilesUncopied", "simulated", schedule=schedule))
    assert "notify_complete.after" == steps(run)[-1]
    assert effects(run)[0].startswith("sink[0]: open → ")


@pytest.mark.parametrize(("job", "step"), [("far-larger-data", 10_000), ("twelve-of-both", 6)])
def test_a_row_is_looked_up_in_a_batch_that_readers_read(job: str, step: int) -> None:
    source = input_of(job)
    first, end = source.first(1), source.length(1)
    for offset in (first, first + step - 1, first + step + 1, end - 1):
        assert f"=v1.{offset}" in row_sent((1, offset), source)
    assert "" == row_sent((1, end), source)
    kept = source._batches  # type: ignore[attr-defined]
    assert all((offset - source.first(split)) % step == 0 for split, offset in kept)
