"""Requests with many items, where a reply with the status 200 says of each item whether it was carried out: to the
`_bulk` API of Elasticsearch and OpenSearch, and to DynamoDB, Kinesis, Firehose and SQS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

BULK: Final = re.compile(rb"P(?:OST|UT) \S*/_bulk(?:\?\S*)? HTTP/1")
OPERATION: Final = re.compile(rb"\r\nx-amz-target: *\w+\.(\w+)\r\n", re.IGNORECASE)
LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
END_OF_HEAD: Final = b"\r\n\r\n"
ACTIONS: Final = ("index", "create", "update", "delete")
WITHOUT_SOURCE: Final = "delete"  # of the others a line with the document follows
REJECTED: Final = {"type": "es_rejected_execution_exception", "reason": "injected: the queue of the node is full"}

OVERLOADED: Final = {"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "injected: slow down"}
OPERATIONS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {  # -> the reply to a request
    "BatchWriteItem": lambda asked: {"UnprocessedItems": asked["RequestItems"]},
    "PutRecords": lambda asked: {
        "FailedRecordCount": len(asked["Records"]),
        "Records": [OVERLOADED for _ in asked["Records"]],
    },
    "PutRecordBatch": lambda asked: {
        "FailedPutCount": len(asked["Records"]),
        "RequestResponses": [OVERLOADED for _ in asked["Records"]],
    },
    "SendMessageBatch": lambda asked: {
        "Successful": [],
        "Failed": [{"Id": each["Id"], "SenderFault": False, "Code": "ServiceUnavailable"} for each in asked["Entries"]],
    },
}


def begins_one(sent: bytes) -> bool:
    """Whether this is the beginning of a request with many items."""
    return bool(BULK.match(sent)) or operation_of(sent) in OPERATIONS


def is_whole(request: bytes) -> bool:
    """Whether its body has come, or its end cannot be told."""
    head, end, body = request.partition(END_OF_HEAD)
    length = LENGTH.search(head + b"\r\n")
    return bool(end) and (length is None or len(body) >= int(length[1]))


def rejection(request: bytes) -> bytes:
    """The body of a reply that rejects each item; empty if this is no such request."""
    head, _, body = request.partition(END_OF_HEAD)
    if operation := operation_of(head + b"\r\n"):
        return _rejected_by(operation, body)
    items = _items(body)
    return json.dumps({"took": 1, "errors": True, "items": items}).encode() if items else b""


def operation_of(head: bytes) -> str:
    named = OPERATION.search(head)
    return named[1].decode() if named else ""


def _rejected_by(operation: str, body: bytes) -> bytes:
    try:
        return json.dumps(OPERATIONS[operation](json.loads(body))).encode()
    except (ValueError, KeyError, TypeError):
        return b""


def _items(body: bytes) -> list[dict[str, Any]]:
    lines, found = iter(body.splitlines()), []
    for line in lines:
        try:
            [(action, about)] = json.loads(line).items()
        except (ValueError, AttributeError):
            return []
        if action not in ACTIONS or not isinstance(about, dict):
            return []
        if action != WITHOUT_SOURCE:
            next(lines, None)
        found.append({action: {**about, "status": 429, "error": REJECTED}})
    return found
