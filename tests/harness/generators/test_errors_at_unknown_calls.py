"""Errors at calls of a client in C: all statements may be sent by one line, and a recovery sends others."""

from __future__ import annotations

from dataclasses import replace

from sinkproof.chaos.schedule import parse
from sinkproof.generators.native_calls import IN_ONE_CALL_MOST, errors_at_unknown_calls, errors_in_recovery

from ...support.traces_of_calls import run_of

SENT = "syscall(sendto socket)"
STATEMENT = ("line(client.py:7)", SENT)
OPEN = ("open.before", *STATEMENT, "open.after")
COMMIT = ("notify_complete.before", *(3 * STATEMENT), "notify_complete.after")


def test_each_statement_that_one_line_sends_in_a_commit_fails_before_and_after_its_effect() -> None:
    errors = {str(schedule) for schedule in errors_at_unknown_calls(run_of(*OPEN, *COMMIT, *STATEMENT))}
    times = (1, 2, 3, 4, 5)  # the first one, three of the commit, the last one
    assert {f"sink[0].{SENT}#{time}={kind}" for time in times for kind in ("error", "unanswered")} == errors


def test_of_many_statements_in_a_commit_some_fail() -> None:
    many = ("notify_complete.before", *(100 * STATEMENT), "notify_complete.after")
    failed = {schedule.faults[0].occurrence for schedule in errors_at_unknown_calls(run_of(*OPEN, *many))}
    assert IN_ONE_CALL_MOST < len(failed) <= IN_ONE_CALL_MOST + 2


def test_what_a_restored_sink_sends_as_it_opens_fails_after_the_death() -> None:
    death = parse("sink[0].notify_complete.after#1=kill-job")
    opened_again = ("open.before", *(2 * STATEMENT), "open.after")
    recovery = replace(run_of(*OPEN, *COMMIT, *opened_again, *COMMIT), schedule=death)
    errors = {str(schedule) for schedule in errors_in_recovery(recovery)}
    assert {f"{death} sink[0].{SENT}#{time}={kind}" for time in (5, 6) for kind in ("error", "unanswered")} == errors
    assert [] == errors_in_recovery(run_of(*OPEN, *COMMIT))
