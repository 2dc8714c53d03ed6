"""Which requests have many items, and what their replies of status 200 say when each of them is rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sinkproof.chaos.requests.bulk_requests import begins_one, is_whole, rejection

PUT = {"PutRequest": {"Item": {"id": {"S": "0/1"}}}}
OVERLOADED = {"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "injected: slow down"}
FAILED = {"Id": "0-1", "SenderFault": False, "Code": "ServiceUnavailable"}


def to_aws(target: str, body: bytes) -> bytes:
    head = f"POST / HTTP/1.1\r\nX-Amz-Target: {target}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize(
    ("target", "body", "rejected"),
    [
        (
            "DynamoDB_20120810.BatchWriteItem",
            {"RequestItems": {"events": [PUT]}},
            {"UnprocessedItems": {"events": [PUT]}},
        ),
        (
            "Kinesis_20131202.PutRecords",
            {"Records": [{"Data": "a"}, {"Data": "b"}]},
            {"FailedRecordCount": 2, "Records": [OVERLOADED, OVERLOADED]},
        ),
        (
            "Firehose_20150804.PutRecordBatch",
            {"Records": [{"Data": "a"}]},
            {"FailedPutCount": 1, "RequestResponses": [OVERLOADED]},
        ),
        (
            "AmazonSQS.SendMessageBatch",
            {"Entries": [{"Id": "0-1", "MessageBody": "a"}]},
            {"Successful": [], "Failed": [FAILED]},
        ),
    ],
)
def test_each_item_of_a_request_to_aws_is_rejected(target: str, body: dict[str, Any], rejected: dict[str, Any]) -> None:
    request = to_aws(target, json.dumps(body).encode())
    head = request[: request.index(b"{")]
    assert begins_one(head)
    assert [False, False, True] == [is_whole(sent) for sent in (head, request[:-1], request)]
    assert rejected == json.loads(rejection(request))


@pytest.mark.parametrize("target", ["DynamoDB_20120810.PutItem", "Kinesis_20131202.PutRecord", "AmazonSQS.SendMessage"])
def test_requests_with_one_item_are_none(target: str) -> None:
    assert not begins_one(to_aws(target, b"{}"))


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\x80", b'{"RequestItems": '])
def test_a_body_that_is_not_understood_is_not_rejected(body: bytes) -> None:
    assert b"" == rejection(to_aws("DynamoDB_20120810.BatchWriteItem", body))
    assert b"" == rejection(to_aws("Firehose_20150804.PutRecordBatch", body))
