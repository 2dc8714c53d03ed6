"""Registered pairs on external systems, which are started for them: certified when they are named, not with all others.

No simulation can stand for a broker, so their sinks are processes.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from sinkproof.sink_adapters.kafka_contract import SINKS, KafkaContract
from sinkproof.sink_adapters.registry import EXACTLY, STRATEGIES, Pair, Strategy

MARKED: Final = Strategy(
    sentence="rows wait in the state and are sent, with a marker, in one transaction when their checkpoint is complete",
    claims=EXACTLY,
    grade="exactly-once",
)
# A log keeps what was never revealed: hidden rows of attempts that died are residue, until its retention removes them.
MASKED: Final = Strategy(
    sentence=STRATEGIES["masked"].sentence,
    claims=tuple(claim for claim in EXACTLY if claim != "NO_RESIDUE"),
    grade="exactly-once",
)
OF_KAFKA: Final = {**STRATEGIES, "write-ahead-marker": MARKED, "masked": MASKED}


def _on_kafka(strategy: str) -> Pair:
    promised = OF_KAFKA[strategy]
    return Pair(
        name=f"kafka/{strategy}",
        sentence=promised.sentence,
        claims=promised.claims,
        grade=promised.grade,
        contract=partial(KafkaContract, strategy, claims=promised.claims, grade=promised.grade),
    )


SERVICE_PAIRS: Final[dict[str, Pair]] = {pair.name: pair for pair in map(_on_kafka, SINKS)}
