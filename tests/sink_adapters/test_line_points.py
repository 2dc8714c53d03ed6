"""Which lines are points: those of a pair's strategies, targets and clients, never those of external systems."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import CommitOutcome, Context, Row, Sink, lines_are_points
from sinkproof.sink_adapters.registry import PAIRS, SERVICE_PAIRS
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.source_files import files_of

# Every registered pair, and the files with lines that are its points.
WATCHED: Final = {
    "files/two-phase": (
        "files/file_system.py",
        "files/file_transactions.py",
        "files/row_formats.py",
        "strategies/transaction_timeout.py",
        "strategies/two_phase.py",
    ),
    "files/write-ahead": (
        "files/file_system.py",
        "files/log_files.py",
        "strategies/write_ahead.py",
    ),
    "files/write-ahead-upsert": (
        "files/file_system.py",
        "files/log_files.py",
        "strategies/write_ahead.py",
    ),
    "files/idempotent": (
        "files/file_system.py",
        "files/log_files.py",
        "strategies/direct_sink.py",
        "strategies/idempotent.py",
    ),
    "files/masked": (
        "files/file_system.py",
        "files/masked_files.py",
        "files/row_formats.py",
        "strategies/masked.py",
    ),
    "files/plain": (
        "files/file_system.py",
        "files/log_files.py",
        "strategies/direct_sink.py",
        "strategies/plain.py",
    ),
    "files/two-phase-parquet": (
        "files/file_system.py",
        "files/file_transactions.py",
        "files/parquet_format.py",
        "strategies/transaction_timeout.py",
        "strategies/two_phase.py",
    ),
    "files/masked-parquet": (
        "files/file_system.py",
        "files/masked_files.py",
        "files/parquet_format.py",
        "strategies/masked.py",
    ),
    "memory/two-phase": (
        "memory/memory_clients.py",
        "strategies/transaction_timeout.py",
        "strategies/two_phase.py",
    ),
    "memory/write-ahead": (
        "memory/memory_clients.py",
        "strategies/write_ahead.py",
    ),
    "memory/write-ahead-upsert": (
        "memory/memory_clients.py",
        "strategies/write_ahead.py",
    ),
    "memory/idempotent": (
        "memory/memory_clients.py",
        "strategies/direct_sink.py",
        "strategies/idempotent.py",
    ),
    "memory/masked": (
        "memory/memory_clients.py",
        "strategies/masked.py",
    ),
    "memory/plain": (
        "memory/memory_clients.py",
        "strategies/direct_sink.py",
        "strategies/plain.py",
    ),
    "kafka/two-phase": (
        "kafka/kafka_transactions.py",
        "kafka/transaction_control.py",
        "strategies/transaction_timeout.py",
        "strategies/two_phase.py",
    ),
    "kafka/write-ahead": (
        "kafka/plain_topic.py",
        "strategies/write_ahead.py",
    ),
    "kafka/write-ahead-marker": (
        "kafka/transaction_control.py",
        "kafka/transactional_write_ahead.py",
        "strategies/write_ahead.py",
    ),
    "kafka/masked": (
        "kafka/masked_topic.py",
        "strategies/masked.py",
    ),
    "kafka/idempotent": (
        "kafka/plain_topic.py",
        "strategies/direct_sink.py",
        "strategies/idempotent.py",
    ),
    "kafka/plain": (
        "kafka/plain_topic.py",
        "strategies/direct_sink.py",
        "strategies/plain.py",
    ),
    "cassandra/masked": (
        "cassandra/cassandra_client.py",
        "cassandra/masked_partitions.py",
        "strategies/masked.py",
    ),
    "cassandra/idempotent": (
        "cassandra/cassandra_client.py",
        "cassandra/upserts_and_counters.py",
        "strategies/direct_sink.py",
        "strategies/idempotent.py",
    ),
    "cassandra/idempotent-own-key": (
        "cassandra/cassandra_client.py",
        "cassandra/upserts_and_counters.py",
        "strategies/direct_sink.py",
        "strategies/idempotent.py",
    ),
    "cassandra/write-ahead": (
        "cassandra/cassandra_client.py",
        "cassandra/upserts_and_counters.py",
        "strategies/write_ahead.py",
    ),
    "cassandra/write-ahead-counter": (
        "cassandra/cassandra_client.py",
        "cassandra/upserts_and_counters.py",
        "strategies/write_ahead.py",
    ),
    "cassandra/write-ahead-list": (
        "cassandra/cassandra_client.py",
        "cassandra/upserts_and_counters.py",
        "strategies/write_ahead.py",
    ),
}
MARKED_MODULES: Final = (
    "protocol",
    "memory.memory_store",
    "memory.memory_server",
    "memory.memory_contracts",
    "files.disk_real",
    "files.disk_memory",
    "files.file_contracts",
    "kafka.kafka_contracts",
    "cassandra.cassandra_contracts",
)
ADDRESS: Final = "127.0.0.1:1"  # no client connects before `open`


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchWithAddresses(Scratch):
    """A scratch with addresses instead of services: a sink is made, not opened."""

    def service(self, name: str, **_: Any) -> Any:
        return SimpleNamespace(endpoint=ADDRESS, direct_endpoint=ADDRESS)


def watched_files(name: str, *, folder: Path, shell: str) -> dict[str, str]:
    is_service = name in SERVICE_PAIRS
    contract: Any = {**PAIRS, **SERVICE_PAIRS}[name].contract()
    scratch = ScratchWithAddresses(name="points", path=folder, shell=shell)
    if is_service:
        (folder / "topic").write_text("topic")
        (folder / "place").write_text(f"{ADDRESS} {ADDRESS} keyspace target")
        return files_of(contract, contract.sink(scratch))
    given = Contract(name, contract)
    given.call_if_there("setup", scratch)
    try:
        return files_of(contract, contract.sink(scratch))
    finally:
        given.call_if_there("teardown", scratch)


def test_every_registered_pair_is_listed() -> None:
    assert {*WATCHED} == {*PAIRS, *SERVICE_PAIRS}


@pytest.mark.parametrize("name", WATCHED)
def test_a_pair_has_line_points_in_these_files_only(name: str, tmp_path: Path) -> None:
    assert WATCHED[name] == tuple(sorted(watched_files(name, folder=tmp_path, shell="process").values()))


@pytest.mark.parametrize("name", PAIRS)
def test_a_simulated_sink_has_line_points_in_the_same_files(name: str, tmp_path: Path) -> None:
    assert WATCHED[name] == tuple(sorted(watched_files(name, folder=tmp_path, shell="simulated").values()))


@pytest.mark.parametrize("module", MARKED_MODULES)
def test_no_class_of_the_protocol_a_contract_a_disk_or_a_store_has_line_points(module: str) -> None:
    found = import_module(f"sinkproof.sink_adapters.{module}")
    classes = [cls for _, cls in inspect.getmembers(found, inspect.isclass) if cls.__module__ == found.__name__]
    assert classes
    assert [cls for cls in classes if lines_are_points(cls)] == []


def test_the_mark_does_not_pass_to_subclasses() -> None:
    class OwnDisk(MemoryDisk):
        pass

    class OwnSink(Sink):
        pass

    assert not lines_are_points(MemoryDisk)
    assert lines_are_points(OwnDisk)
    assert lines_are_points(OwnSink)


@pytest.mark.slow
def test_a_user_class_below_a_marked_class_adds_its_own_file_only() -> None:
    class UserStore(MemoryStore):
        pass

    UserStore.lines_are_points = False  # type: ignore[attr-defined] # the mark counts for our own packages only
    held = SimpleNamespace(store=UserStore(), rows=[Row(0, 0, "key", "value")], context=Context())
    assert str(Path(__file__)) in files_of(None, held)
    assert not [name for name in files_of(None, held).values() if "memory_store" in name or name == "protocol.py"]


def test_the_mark_changes_neither_the_values_of_the_protocol_nor_isinstance() -> None:
    class EightCalls:
        def open(self, context: Context) -> None: ...
        def write(self, batch: Any) -> None: ...
        def snapshot(self, checkpoint_id: int) -> bytes:
            return b""

        def notify_complete(self, checkpoint_id: int) -> None: ...
        def notify_aborted(self, checkpoint_id: int) -> None: ...
        def settle(self, now: float) -> None: ...
        def end_of_input(self) -> None: ...
        def close(self) -> None: ...

    assert isinstance(EightCalls(), Sink)
    assert Row._fields == ("split", "offset", "key", "value", "event_time_ms")
    assert [outcome.name for outcome in CommitOutcome] == ["COMMITTED", "ALREADY", "RETRY", "LOST"]
