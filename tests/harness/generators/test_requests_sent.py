"""Which requests of a client in Python are struck."""

from __future__ import annotations

from sinkproof.chaos.schedule import Fault
from sinkproof.chaos.socket_points import POINT as SENDS
from sinkproof.generators.requests_sent import REQUESTS_MOST, further_requests, requests

from ...support.traces_of_calls import run_of

WRITE = ("write.before", SENDS, SENDS, SENDS, "write.after")
COMMIT = ("notify_complete.before", SENDS, "notify_complete.after")


def test_calls_take_turns_and_their_last_requests_come_first_and_last() -> None:
    found = requests(run_of(*WRITE, *WRITE, *WRITE, *COMMIT), "closed")
    assert [3, 1, 10, 9, 8, 6, 2, 4, 5, 7] == [fault.occurrence for fault in found]
    assert {"closed"} == {fault.kind for fault in found}


def test_there_are_not_too_many() -> None:
    found = requests(run_of(*(12 * WRITE)), "closed")
    assert REQUESTS_MOST == len(found)
    assert {3, 36} <= {fault.occurrence for fault in found[:4]}


def test_between_requests_of_one_line_in_a_commit() -> None:
    head_and_body = ("line(client.py:7)", SENDS, SENDS, SENDS, SENDS)
    alone = ("line(client.py:8)", SENDS, "line(client.py:8)", SENDS)
    before = ("write.before", "line(client.py:7)", SENDS, SENDS, "write.after")
    commit = ("notify_complete.before", *head_and_body, "notify_complete.after")
    again = ("notify_complete.before", *alone[:2], "notify_complete.after", *commit)
    found = [*further_requests(run_of(*before, *commit, *again), "notify_complete", "hang")]
    assert [Fault("sink[0]", SENDS, number, "hang") for number in (4, 6)] == found
