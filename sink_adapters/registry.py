"""Lists the valid pairs of strategy and target: claims, expected grade, and the contract to certify each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from sinkproof.sink_adapters.cassandra import cassandra_contracts
from sinkproof.sink_adapters.cassandra.cassandra_contracts import CassandraContract
from sinkproof.sink_adapters.files.file_contracts import FilesContract
from sinkproof.sink_adapters.kafka import kafka_contracts
from sinkproof.sink_adapters.kafka.kafka_contracts import KafkaContract
from sinkproof.sink_adapters.memory.memory_contracts import MemoryContract
from sinkproof.sink_adapters.strategies.strategy_claims import AT_LEAST, EXACTLY, ON_DISK, STRATEGIES, Strategy

PARQUET: Final = "-parquet"
LINES: Final = {name: replace(each, claims=(*each.claims, *ON_DISK)) for name, each in STRATEGIES.items()}
# Logs are written line by line, which Parquet cannot be.
OF_FILES: Final = {**LINES, **{name + PARQUET: LINES[name] for name in ("two-phase", "masked")}}
MARKED: Final = Strategy(
    sentence="rows wait in the state and are sent, with a marker, in one transaction when their checkpoint is complete",
    claims=EXACTLY,
    grade="exactly-once",
)
OF_KAFKA: Final = {
    **STRATEGIES,
    "write-ahead-marker": MARKED,
    # A log keeps what was never revealed: hidden rows of killed attempts are residue, until its retention removes them.
    "masked": replace(STRATEGIES["masked"], claims=tuple(claim for claim in EXACTLY if claim != "NO_RESIDUE")),
}
OF_CASSANDRA: Final = {
    **STRATEGIES,
    "write-ahead": STRATEGIES["write-ahead-upsert"],
    # A statement that is not idempotent takes effect twice after a crash between sending and recording.
    "write-ahead-counter": Strategy(
        sentence="rows wait in the state and are counted when their checkpoint is complete",
        claims=AT_LEAST,
        grade="at-least-once",
    ),
    "write-ahead-list": Strategy(
        sentence="rows wait in the state and are appended to a list when their checkpoint is complete",
        claims=AT_LEAST,
        grade="at-least-once",
    ),
    "idempotent-own-key": Strategy(
        sentence="rows are upserted at once, under keys that every replay makes anew",
        claims=AT_LEAST,
        grade="at-least-once",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """`contract()` makes a contract object with a store or disk of its own."""

    name: str
    sentence: str
    claims: tuple[str, ...]
    grade: str
    contract: Callable[[], Any] = field(compare=False)


def _pairs(
    target: str, promises: Mapping[str, Strategy], contract: Callable[[str, Strategy], Callable[[], Any]]
) -> dict[str, Pair]:
    """`contract`: from the name and the promise of a strategy."""
    return {
        f"{target}/{name}": Pair(
            name=f"{target}/{name}",
            sentence=promise.sentence,
            claims=promise.claims,
            grade=promise.grade,
            contract=contract(name, promise),
        )
        for name, promise in promises.items()
    }


def _on_files(name: str, _: Strategy) -> Callable[[], Any]:
    return partial(FilesContract, name.removesuffix(PARQUET), parquet=name.endswith(PARQUET))


def _on_service(contract: Callable[..., Any]) -> Callable[[str, Strategy], Callable[[], Any]]:
    """No simulation replaces a broker, so its sinks are processes. The harness starts it."""
    return lambda name, promise: partial(contract, name, claims=promise.claims, grade=promise.grade)


PAIRS: Final[dict[str, Pair]] = {
    **_pairs("files", OF_FILES, _on_files),
    **_pairs("memory", STRATEGIES, lambda name, _: partial(MemoryContract, name)),
}
SERVICE_PAIRS: Final[dict[str, Pair]] = {  # certified only when named
    **_pairs("kafka", {name: OF_KAFKA[name] for name in kafka_contracts.SINKS}, _on_service(KafkaContract)),
    **_pairs(
        "cassandra", {name: OF_CASSANDRA[name] for name in cassandra_contracts.SINKS}, _on_service(CassandraContract)
    ),
}
