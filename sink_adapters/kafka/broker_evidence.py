"""Collects what the broker reports about a topic with missing rows: is the cause the sink or the broker?

Offsets, DescribeProducers and ListTransactions together show which transaction holds readers back, and whether its
coordinator calls it complete. One sentence for each irregularity; none if the broker reports none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from sinkproof.sink_adapters.kafka.transaction_control import OPEN, NotNow, TransactionControl

if TYPE_CHECKING:
    from sinkproof.sink_adapters.kafka.broker_requests import ListedTransaction

SENTENCES_MOST: Final = 6
COMPLETE: Final = ("CompleteCommit", "CompleteAbort")


def evidence(endpoint: str, topics: Sequence[str], prefix: str) -> list[str]:
    """`prefix`: of the transactional ids of all writers to these topics."""
    control = TransactionControl(endpoint)
    try:
        listed = control.listed(re.escape(prefix) + ".*", ())
        by_producer = {each.producer: each for each in listed}
        found = [sentence for topic in topics for sentence in _of_topic(control, topic, by_producer)]
        found += [f"transaction {each.name} is {each.state}" for each in listed if each.state in OPEN]
        return found[:SENTENCES_MOST]
    except NotNow as error:
        return [f"the broker does not answer: {error}"]
    finally:
        control.close()


def _of_topic(control: TransactionControl, topic: str, by_producer: dict[int, ListedTransaction]) -> Iterator[str]:
    error, partitions = control.partitions(topic)
    if error:
        yield f"{topic}: error {error}"
    for partition in partitions:
        end, stable = (control.end_offset(topic, partition, committed=committed)[1] for committed in (False, True))
        if stable < end:
            yield f"{topic}-{partition}: read_committed readers stop at offset {stable} of {end}"
        for producing in control.producers(topic, partition)[1]:
            if producing.since < 0:
                continue
            owner = by_producer.get(producing.producer)
            name = f"transaction {owner.name}" if owner else f"producer {producing.producer}"
            state = "which no coordinator knows" if owner is None else f"which its coordinator calls {owner.state}"
            blame = ": the broker has not ended it" if owner is not None and owner.state in COMPLETE else ""
            yield f"{topic}-{partition}: {name}, {state}, is open there since offset {producing.since}{blame}"
