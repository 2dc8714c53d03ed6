"""Drives a sink call by call, as the engine would."""

from __future__ import annotations

from typing import Any

from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.file_transactions import FileTransactions
from sinkproof.sink_adapters.files.masked_files import MaskedFiles
from sinkproof.sink_adapters.memory.memory_clients import MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Batch, Context, Row, Sink
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink


def rows(*offsets: int) -> tuple[Row, ...]:
    return tuple(Row(0, offset, f"k{offset}", f"v{offset}") for offset in offsets)


def batch(*offsets: int) -> Batch:
    return Batch(rows(*offsets))


def offsets(store: MemoryStore) -> list[int]:
    return [offset for _, offset in store.read()]


def started(sink: Sink, **context: Any) -> Sink:
    sink.open(Context(**context))
    return sink


def restored(sink: Sink, generation: int, *states: bytes, **context: Any) -> Sink:
    """A new attempt, by default the only subtask, that restores the states of all old ones from checkpoint 1."""
    context.setdefault("checkpoint_id_restored", 1)
    old = range(len(states))
    return started(sink, generation=generation, restored=list(enumerate(states)), subtasks_restored=old, **context)


def two_phase(store: MemoryStore, **options: Any) -> TwoPhaseCommitSink:
    return TwoPhaseCommitSink(MemoryTransactions(store, **options))


def two_phase_files(disk: Any, **options: Any) -> TwoPhaseCommitSink:
    return TwoPhaseCommitSink(FileTransactions(Files(disk), **options))


def masked_files(disk: Any, **options: Any) -> MaskedSink:
    return MaskedSink(MaskedFiles(Files(disk), **options))


def tree(disk: Any, folder: str) -> list[str]:
    """Files below the folder."""
    below = [f"{folder}/{name}" for name in disk.list(folder)]
    return [file for path in below for file in (tree(disk, path) if disk.is_folder(path) else [path])]


class Crashed(BaseException):
    """The machine crashes here."""


def crashing_at(count: int) -> Any:
    """A `reach` that crashes the machine at the given point."""
    left = [count]

    def reach(_: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Crashed

    return reach
