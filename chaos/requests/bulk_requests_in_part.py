"""Bulk requests of which only some items are sent, and the replies that say of the others that they were rejected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from sinkproof.chaos.requests.bulk_requests import (
    END_OF_HEAD,
    LENGTH,
    WITHOUT_SOURCE,
    operation_of,
    rejection,
)

Document = dict[str, Any]
Merge = Callable[[Document], Document]  # from the reply to what was sent to one about the whole request
RESULTS: Final = {  # of requests with `Records`: the name of their results, and that of the number of failed ones
    "PutRecords": ("Records", "FailedRecordCount"),
    "PutRecordBatch": ("RequestResponses", "FailedPutCount"),
}
ENCODED: Final = re.compile(rb"\r\ncontent-encoding: *(?!identity)", re.IGNORECASE)
ACCEPTED: Final = re.compile(rb"\r\naccept-encoding:[^\r]*\r\n", re.IGNORECASE)
CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
LAST_CHUNK: Final = b"0\r\n\r\n"


def in_part(request: bytes) -> tuple[bytes, Callable[[bytes], bytes]] | None:
    """The request without every second item, and what makes the reply to it one that says of these that they were
    rejected. None: it has a single item, or is no request with several.
    """
    head, _, body = request.partition(END_OF_HEAD)
    rejected = json.loads(rejection(request) or b"{}")
    try:
        split = _split_operation(operation_of(head + b"\r\n"), body, rejected) or _split_lines(body, rejected)
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    if split is None:
        return None
    kept, merge = split
    head = LENGTH.sub(b"\r\nContent-Length: %d\r\n" % len(kept), head + b"\r\n")
    head = ACCEPTED.sub(b"\r\n", head).removesuffix(b"\r\n")  # else the reply may be compressed
    return head + END_OF_HEAD + kept, lambda reply: _merged(reply, merge)


def _split_lines(body: bytes, rejected: Document) -> tuple[bytes, Merge] | None:
    lines, documents = iter(body.splitlines(keepends=True)), list[list[bytes]]()
    for line in lines:
        (action,) = json.loads(line)
        documents.append([line] if action == WITHOUT_SOURCE else [line, next(lines, b"")])
    if len(documents) < 2:
        return None
    return b"".join(chain.from_iterable(documents[::2])), lambda reply: {
        **reply,
        "errors": True,
        "items": _alternately(reply["items"], rejected["items"]),
    }


def _split_operation(operation: str, body: bytes, rejected: Document) -> tuple[bytes, Merge] | None:
    asked = json.loads(body) if operation else {}
    if operation in RESULTS and len(asked["Records"]) > 1:
        results, count = RESULTS[operation]
        return _without(asked, "Records"), lambda reply: {
            **reply,
            results: _alternately(reply[results], rejected[results]),
            count: reply[count] + len(rejected[results]) // 2,
        }
    if operation == "SendMessageBatch" and len(asked["Entries"]) > 1:
        return _without(asked, "Entries"), lambda reply: {
            **reply,
            "Failed": [*reply.get("Failed", ()), *rejected["Failed"][1::2]],
        }
    if operation == "BatchWriteItem" and any(len(items) > 1 for items in asked["RequestItems"].values()):
        tables = asked["RequestItems"]
        kept = {**asked, "RequestItems": {table: items[::2] for table, items in tables.items()}}
        left = {table: items[1::2] for table, items in tables.items() if len(items) > 1}
        return json.dumps(kept).encode(), lambda reply: {
            **reply,
            "UnprocessedItems": _joined(reply.get("UnprocessedItems", {}), left),
        }
    return None


def _joined(unprocessed: Document, left: Document) -> Document:
    """By table, of which either may have some."""
    return {table: [*unprocessed.get(table, ()), *left.get(table, ())] for table in {**unprocessed, **left}}


def _without(asked: Document, name: str) -> bytes:
    return json.dumps({**asked, name: asked[name][::2]}).encode()


def _alternately(done: Sequence[Any], rejected: Sequence[Any]) -> list[Any]:
    """`rejected`: of all items; of every second one it counts."""
    return [rejected[at] if at % 2 else done[at // 2] for at in range(len(rejected))]


def lacks_more(reply: bytes) -> bool:
    """Nothing has come yet, or not all of a reply of HTTP that says how long it is."""
    head, end, body = reply.partition(END_OF_HEAD)
    if not end or not reply.startswith(b"HTTP/1"):
        return not reply or reply.startswith(b"HTTP/1")
    if CHUNKED.search(head):
        return not body.endswith(LAST_CHUNK)
    length = LENGTH.search(head + b"\r\n")
    return length is not None and len(body) < int(length[1])


def _merged(reply: bytes, merge: Merge) -> bytes:
    """An error as it is. Nothing where it cannot be merged, as it would say that all items were carried out: the
    connection ends then without a reply.
    """
    head, _, body = reply.partition(END_OF_HEAD)
    if b" 200 " not in head.partition(b"\r\n")[0]:
        return reply
    if ENCODED.search(head):
        return b""
    try:
        text = json.dumps(merge(json.loads(_unchunked(body) if CHUNKED.search(head) else body))).encode()
    except (ValueError, KeyError, TypeError, IndexError):
        return b""
    fields = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"content-length", b"transfer-enc"))]
    return b"\r\n".join([*fields, b"Content-Length: %d" % len(text), b"Connection: close"]) + END_OF_HEAD + text


def _unchunked(body: bytes) -> bytes:
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        parts.append(rest[:length])
        body = rest[length + 2 :] if length else b""
    return b"".join(parts)
