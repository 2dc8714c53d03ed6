"""The committed view of a topic after all transactions have ended."""

from __future__ import annotations

from sinkproof.sink_adapters.kafka.record_sender import decode
from sinkproof.sink_adapters.kafka.topic_reader import read
from sinkproof.sink_adapters.kafka.transaction_control import TransactionControl

UNDER_WAY = ("PrepareCommit", "PrepareAbort")
SECONDS_MOST = 20.0


def committed(endpoint: str, topic: str) -> list[int]:
    """Offsets in the source, sorted. The broker answers the end of a transaction some milliseconds before readers see
    it.
    """
    control = TransactionControl(endpoint)
    try:
        assert control.await_none(".*", UNDER_WAY, seconds=SECONDS_MOST)
    finally:
        control.close()
    return sorted(decode(record.value).offset for record in read(endpoint, topic) if record.value)
