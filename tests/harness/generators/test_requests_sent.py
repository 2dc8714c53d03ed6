"""Which requests of a client in Python are struck."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.chaos.requests.socket_points import POINT as SENDS
from sinkproof.chaos.schedule import Fault
from sinkproof.generators.fault_sites import faults_of_replies
from sinkproof.generators.requests_sent import REQUESTS_MOST, further_requests, requests
from sinkproof.subject.static_analysis.names_in_code import sends_in_bulk

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


@pytest.mark.parametrize(
    ("code", "sends_items"),
    [
        ("elasticsearch.Elasticsearch()", True),
        ("client.put_records(Records=rows)", True),
        ("connection.request('POST', '/_bulk')", True),
        ("headers = {'X-Amz-Target': 'DynamoDB_20120810.BatchWriteItem'}", True),
        ("headers = {'X-Amz-Target': 'DynamoDB_20120810.PutItem'}", False),
    ],
)
def test_code_that_sends_many_items_in_a_request_is_known(code: str, sends_items: bool, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(code)
    assert sends_items is sends_in_bulk([str(tmp_path / "client.py")])
    assert sends_items is ({"items-rejected", "some-rejected"} <= {*faults_of_replies([str(tmp_path / "client.py")])})
