"""Rows that were on their way when an unaligned checkpoint was taken: how a snapshot holds them.

A receiver's snapshot holds what its channels still had before their barriers ("in_flight", by sender), a sender's what
its barrier has overtaken in its queues ("queued", by receiver). Both name subtasks, because ids change with the
parallelism. A snapshot without such rows holds neither part.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sinkproof.sink_adapters.protocol import Batch, Row

IN_FLIGHT: Final = "in_flight"
QUEUED: Final = "queued"
ON_THE_WAY: Final = frozenset((IN_FLIGHT, QUEUED))

Waiting = tuple[str, Batch]  # the subtask at the other end of the channel, and rows in it


def encode_waiting(waiting: Iterable[Waiting]) -> bytes:
    return json.dumps([[name, _encoded(batch)] for name, batch in waiting]).encode()


def _encoded(batch: Batch) -> Any:
    if not batch.columnar:
        return batch.rows
    from sinkproof.reference_engine.dataflow.columns import encode  # only here: certifying needs no columns

    return base64.b64encode(encode(batch)).decode()


def decode_waiting(state: bytes) -> list[Waiting]:
    return [(name, _decoded(encoded)) for name, encoded in json.loads(state)]


def _decoded(encoded: Any) -> Batch:
    if not isinstance(encoded, str):
        return Batch(Row(*row) for row in encoded)
    from sinkproof.reference_engine.dataflow.columns import decode

    return decode(base64.b64decode(encoded))


def waiting_in(states: Mapping[str, Any]) -> list[Waiting]:
    """Of a receiver's snapshot: (sender, rows)."""
    return decode_waiting(states[IN_FLIGHT]) if IN_FLIGHT in states else []


def waiting_out(states: Mapping[str, Any]) -> list[Waiting]:
    """Of a sender's snapshot: (receiver, rows)."""
    return decode_waiting(states[QUEUED]) if QUEUED in states else []
