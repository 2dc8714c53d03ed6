"""Which pair is in which cell of the table, what is expected of it, and why some cells are empty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sinkproof.sink_adapters.registry import MARKED, PAIRS, SERVICE_PAIRS
from sinkproof.sink_adapters.strategies.idempotent import UpsertTarget
from sinkproof.sink_adapters.strategies.masked import MaskedTarget
from sinkproof.sink_adapters.strategies.plain import AppendTarget
from sinkproof.sink_adapters.strategies.strategy_claims import STRATEGIES
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseTarget
from sinkproof.sink_adapters.strategies.write_ahead import CheckpointCommitter, WriteAheadTarget


class TableCell(NamedTuple):
    strategy: str
    target: str


class TableStrategy(NamedTuple):
    """`protocols`: what a target must offer; `besides`: what its calls must promise besides."""

    sentence: str
    protocols: tuple[type, ...]
    besides: str = ""


TARGETS: Final = {
    "memory": "a store in a process of its own, behind a socket",
    "files": "files on a real disk, synced",
    "kafka": "topics of a real broker",
    "cassandra": "tables of a real node, which syncs its log before it answers",
}
EMBEDDED: Final = ("memory", "files")  # they need nothing but this machine
EVERY_PAIR: Final = {**PAIRS, **SERVICE_PAIRS}
LOGGED: Final = (WriteAheadTarget, CheckpointCommitter)
WAYS: Final = {
    "two-phase": TableStrategy(STRATEGIES["two-phase"].sentence, (TwoPhaseTarget,)),
    "write-ahead": TableStrategy(STRATEGIES["write-ahead"].sentence, LOGGED),
    "write-ahead-upsert": TableStrategy(
        STRATEGIES["write-ahead-upsert"].sentence, LOGGED, "publishing a part twice is the same as once"
    ),
    "write-ahead-marker": TableStrategy(
        MARKED.sentence, LOGGED, "rows and the record that they were sent become visible in one step"
    ),
    "idempotent": TableStrategy(STRATEGIES["idempotent"].sentence, (UpsertTarget,)),
    "masked": TableStrategy(STRATEGIES["masked"].sentence, (MaskedTarget,), "readers that honour the marker"),
    "plain": TableStrategy(STRATEGIES["plain"].sentence, (AppendTarget,)),
}
AT_ONCE: Final = ("idempotent", "plain")
VARIANT: Final = "-parquet"
# Pairs that are named by how the target counts rows, not by the strategy.
MOVED: Final = {
    "cassandra/write-ahead": "write-ahead-upsert",
    "cassandra/write-ahead-counter": "write-ahead",
    "cassandra/write-ahead-list": "write-ahead",
    "cassandra/idempotent-own-key": "idempotent",
}
WHY_NOT: Final = {
    TableCell("two-phase", "cassandra"): (
        "a statement, a batch and a conditional insert are each decided by the request that asks for it: nothing can "
        "be prepared now, and committed later by another process"
    ),
    TableCell("write-ahead-upsert", "kafka"): (
        "a topic keeps every record, and none replaces another. A reader that keeps the last record of a key can use "
        "kafka/idempotent, which shows the same rows without waiting"
    ),
    TableCell("write-ahead-marker", "memory"): (
        "its log and its record of what was sent are two requests. Several become visible in one step only in its "
        "transaction: memory/two-phase"
    ),
    TableCell("write-ahead-marker", "files"): (
        "lines of a log and a line of the record are two files. Only a renamed file appears in one step, "
        "and that is files/two-phase"
    ),
    TableCell("write-ahead-marker", "cassandra"): (
        "a batch is one step in one partition only, and rows are in many. Upserted rows need no marker: "
        "cassandra/write-ahead"
    ),
    TableCell("plain", "cassandra"): (
        "a table has no append: every insert upserts a key. With a new key for each insert it is "
        "cassandra/idempotent-own-key"
    ),
}
EXPIRES: Final = ("memory/two-phase", "kafka/two-phase")  # an open transaction is aborted after some time


def cell_of(name: str) -> TableCell:
    target, _, sink = name.partition("/")
    return TableCell(MOVED.get(name, sink.removesuffix(VARIANT)), target)


def pairs_on(targets: Iterable[str]) -> list[str]:
    """In the order of the table: by target, then by strategy."""
    chosen = set(targets)
    order = [TableCell(strategy, target) for target in TARGETS for strategy in WAYS]
    return sorted(
        (name for name in EVERY_PAIR if cell_of(name).target in chosen), key=lambda name: order.index(cell_of(name))
    )


def offers(strategy: str) -> list[str]:
    """What a target must offer: the names of calls, and what else they promise."""
    _, protocols, besides = WAYS[strategy]
    calls = [name for protocol in protocols for name in vars(protocol) if not name.startswith("_")]
    return [*calls, besides] if besides else calls


def checkpoints_to_wait(name: str) -> int:
    """How many checkpoints have to complete until a row is visible: none, or its own."""
    return 0 if cell_of(name).strategy in AT_ONCE else 1
