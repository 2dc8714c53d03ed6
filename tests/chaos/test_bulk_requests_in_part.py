"""Of a bulk request every second item is sent, and the reply speaks of all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sinkproof.chaos.requests.bulk_requests_in_part import in_part, lacks_more

LINES = [
    {"create": {"_id": "0"}},
    [0],
    {"delete": {"_id": "1"}},
    {"index": {"_id": "2"}},
    [2],
    {"create": {"_id": "3"}},
    [3],
]
DONE = [{"create": {"_id": "0", "status": 201}}, {"index": {"_id": "2", "status": 200}}]


def lines(*documents: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents)


def request_of(body: bytes, *, operation: str = "") -> bytes:
    target = f"POST / HTTP/1.1\r\nX-Amz-Target: Service.{operation}" if operation else "POST /rows/_bulk HTTP/1.1"
    return f"{target}\r\nContent-Length: {len(body)}\r\nAccept: */*\r\n\r\n".encode() + body


def reply_of(document: Any, *, chunked: bool = False) -> bytes:
    text = json.dumps(document).encode()
    if chunked:
        half = len(text) // 2
        parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (text[:half], text[half:]))
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX: y\r\n\r\n" % len(text) + text


def parts_of(message: bytes) -> tuple[bytes, bytes]:
    head, _, body = message.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    return head, body


@pytest.mark.parametrize("chunked", [False, True])
def test_lines_of_actions_and_documents(chunked: bool) -> None:
    split = in_part(request_of(lines(*LINES)))
    assert split is not None
    sent, merged = split
    head, body = parts_of(sent)
    assert head.endswith(b"Accept: */*")
    assert lines(*LINES[:2], *LINES[3:5]) == body
    head, body = parts_of(merged(reply_of({"took": 3, "errors": False, "items": DONE}, chunked=chunked)))
    assert b"chunked" not in head
    said = json.loads(body)
    assert (3, True) == (said["took"], said["errors"])
    results = [(action, about["_id"], about["status"]) for item in said["items"] for action, about in item.items()]
    assert [("create", "0", 201), ("delete", "1", 429), ("index", "2", 200), ("create", "3", 429)] == results


@pytest.mark.parametrize(
    ("operation", "asked", "sent", "reply", "merged"),
    [
        (
            *(
                "PutRecords",
                {"StreamName": "s", "Records": ["a", "b", "c"]},
                {"StreamName": "s", "Records": ["a", "c"]},
            ),
            {"FailedRecordCount": 0, "Records": [{"SequenceNumber": "1"}, {"SequenceNumber": "2"}]},
            (1, ["1", None, "2"]),
        ),
        (
            *("BatchWriteItem", {"RequestItems": {"t": [1, 2], "u": [3]}}, {"RequestItems": {"t": [1], "u": [3]}}),
            {"UnprocessedItems": {}},
            {"t": [2]},
        ),
        (
            *("SendMessageBatch", {"Entries": [{"Id": "a"}, {"Id": "b"}]}, {"Entries": [{"Id": "a"}]}),
            {"Successful": [{"Id": "a"}]},
            (["a"], ["b"]),
        ),
    ],
)
def test_requests_of_aws(operation: str, asked: Any, sent: Any, reply: Any, merged: Any) -> None:
    split = in_part(request_of(json.dumps(asked).encode(), operation=operation))
    assert split is not None
    assert sent == json.loads(parts_of(split[0])[1])
    said = json.loads(parts_of(split[1](reply_of(reply)))[1])
    match operation:
        case "PutRecords":
            found: Any = (said["FailedRecordCount"], [each.get("SequenceNumber") for each in said["Records"]])
        case "BatchWriteItem":
            found = said["UnprocessedItems"]
        case _:
            found = tuple([each["Id"] for each in said[name]] for name in ("Successful", "Failed"))
    assert merged == found


@pytest.mark.parametrize("body", [lines(*LINES[:2]), b"no lines of JSON", b""])
def test_a_single_item_has_no_part(body: bytes) -> None:
    assert in_part(request_of(body)) is None


@pytest.mark.parametrize(
    ("reply", "stays"),
    [
        (b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", False),
        (reply_of({"items": DONE[:1]}), False),
    ],
)
def test_a_reply_that_cannot_be_merged_is_lost_unless_it_is_an_error(reply: bytes, stays: bool) -> None:
    """It would say that the items which were not sent are there."""
    split = in_part(request_of(lines(*LINES)))
    assert split is not None
    assert (reply if stays else b"") == split[1](reply)


def test_a_reply_is_not_compressed() -> None:
    body = lines(*LINES)
    head = f"POST /_bulk HTTP/1.1\r\nAccept-Encoding: gzip, br\r\nContent-Length: {len(body)}\r\nX: y\r\n\r\n"
    split = in_part(head.encode() + body)
    assert split is not None
    kept, _ = parts_of(split[0])
    assert b"ncoding" not in kept
    assert kept.endswith(b"X: y")


def test_items_that_the_service_has_not_processed_itself_stay_unprocessed() -> None:
    asked = {"RequestItems": {"t": [1, 2, 3], "u": [4]}}
    split = in_part(request_of(json.dumps(asked).encode(), operation="BatchWriteItem"))
    assert split is not None
    said = json.loads(parts_of(split[1](reply_of({"UnprocessedItems": {"t": [3], "u": [4]}})))[1])
    assert {"t": [3, 2], "u": [4]} == said["UnprocessedItems"]


@pytest.mark.parametrize(
    ("reply", "lacks"),
    [
        *((b"", True), (b"done", False), (b"HTTP/1.1 200 OK\r\n", True), (b"HTTP/1.1 204 No Content\r\n\r\n", False)),
        *((reply_of({}), False), (reply_of({})[:-1], True)),
        *((reply_of({}, chunked=True), False), (reply_of({}, chunked=True)[:-3], True)),
    ],
)
def test_more_of_a_reply_is_awaited_where_it_says_how_long_it_is(reply: bytes, lacks: bool) -> None:
    assert lacks is lacks_more(reply)
