"""Requests to the `_bulk` API of Elasticsearch and OpenSearch: a reply with the status 200 says of each item whether it
was carried out.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

BULK: Final = re.compile(rb"P(?:OST|UT) \S*/_bulk(?:\?\S*)? HTTP/1")
LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
END_OF_HEAD: Final = b"\r\n\r\n"
ACTIONS: Final = ("index", "create", "update", "delete")
WITHOUT_SOURCE: Final = "delete"  # of the others a line with the document follows
REJECTED: Final = {"type": "es_rejected_execution_exception", "reason": "injected: the queue of the node is full"}


def is_whole(request: bytes) -> bool:
    """Whether its body has come, or its end cannot be told."""
    head, end, body = request.partition(END_OF_HEAD)
    length = LENGTH.search(head + b"\r\n")
    return bool(end) and (length is None or len(body) >= int(length[1]))


def rejection(request: bytes) -> bytes:
    """The body of a reply that rejects each item; empty if this is no such request."""
    items = _items(request.partition(END_OF_HEAD)[2])
    return json.dumps({"took": 1, "errors": True, "items": items}).encode() if items else b""


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
