"""Lists the pairs on external systems, which the harness starts: certified only when named.

No simulation replaces a broker, so their sinks are processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from sinkproof.sink_adapters.cassandra import cassandra_contracts as cassandra_contract
from sinkproof.sink_adapters.cassandra.cassandra_contracts import CassandraContract
from sinkproof.sink_adapters.kafka import kafka_contracts as kafka_contract
from sinkproof.sink_adapters.kafka.kafka_contracts import KafkaContract
from sinkproof.sink_adapters.registry import Pair
from sinkproof.sink_adapters.strategies.strategy_claims import AT_LEAST, EXACTLY, STRATEGIES, Strategy

MARKED: Final = Strategy(
    sentence="rows wait in the state and are sent, with a marker, in one transaction when their checkpoint is complete",
    claims=EXACTLY,
    grade="exactly-once",
)
# A log keeps what was never revealed: hidden rows of killed attempts are residue, until its retention removes them.
MASKED: Final = Strategy(
    sentence=STRATEGIES["masked"].sentence,
    claims=tuple(claim for claim in EXACTLY if claim != "NO_RESIDUE"),
    grade="exactly-once",
)
OF_KAFKA: Final = {**STRATEGIES, "write-ahead-marker": MARKED, "masked": MASKED}


# A statement that is not idempotent takes effect twice after a crash between sending and recording.
COUNTER: Final = Strategy(
    sentence="rows wait in the state and are counted when their checkpoint is complete",
    claims=AT_LEAST,
    grade="at-least-once",
)
LIST: Final = Strategy(
    sentence="rows wait in the state and are appended to a list when their checkpoint is complete",
    claims=AT_LEAST,
    grade="at-least-once",
)
OWN_KEY: Final = Strategy(
    sentence="rows are upserted at once, under keys that every replay makes anew",
    claims=AT_LEAST,
    grade="at-least-once",
)
OF_CASSANDRA: Final = {
    **STRATEGIES,
    "write-ahead": STRATEGIES["write-ahead-upsert"],
    "write-ahead-counter": COUNTER,
    "write-ahead-list": LIST,
    "idempotent-own-key": OWN_KEY,
}


def _pairs(
    target: str, strategies: Mapping[str, Strategy], *, sinks: Iterable[str], contract: Callable[..., Any]
) -> dict[str, Pair]:
    return {
        f"{target}/{name}": Pair(
            name=f"{target}/{name}",
            sentence=strategies[name].sentence,
            claims=strategies[name].claims,
            grade=strategies[name].grade,
            contract=partial(contract, name, claims=strategies[name].claims, grade=strategies[name].grade),
        )
        for name in sinks
    }


SERVICE_PAIRS: Final[dict[str, Pair]] = {
    **_pairs("kafka", OF_KAFKA, sinks=kafka_contract.SINKS, contract=KafkaContract),
    **_pairs("cassandra", OF_CASSANDRA, sinks=cassandra_contract.SINKS, contract=CassandraContract),
}
