"""Write-ahead, driven call by call: rows in the state, order of checkpoints, the two causes of repeats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sinkproof.sink_adapters.memory.memory_clients import MemoryCommitter, MemoryLog, MemoryTable
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Context, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Owner
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

from .by_hand import batch, offsets, restored, started


def write_ahead(store: MemoryStore, *, target: Any = None) -> WriteAheadSink:
    return WriteAheadSink(target or MemoryLog(store), MemoryCommitter(store))


class InOne(MemoryLog):
    """Target and committer."""

    __slots__ = ("calls",)

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.calls: list[str] = []

    def attach(self, context: Context) -> None:
        self.calls.append("attach")
        super().attach(context)

    def close(self) -> None:
        self.calls.append("close")


def test_an_object_that_is_target_and_committer_is_attached_and_closed_once(store: MemoryStore) -> None:
    both = InOne(store)
    started(WriteAheadSink(both, both)).close()  # type: ignore[arg-type, attr-defined]
    assert ["attach", "close"] == both.calls


@pytest.mark.row("S20")
def test_rows_wait_in_the_state_until_their_checkpoint_is_complete(store: MemoryStore) -> None:
    sink = started(write_ahead(store))
    sink.write(batch(0))
    assert {"pending": [["sink-0-1", [[0, 0, "k0", "v0", 0]]]]} == json.loads(sink.snapshot(1))
    sink.write(batch(1))
    sink.snapshot(2)
    assert [] == offsets(store)
    sink.notify_complete(2)
    assert [0, 1] == offsets(store)
    assert b'{"pending":[]}' == sink.snapshot(3)


class Failing(MemoryLog):
    """Refuses to send a given number of times."""

    __slots__ = ("times",)

    def __init__(self, store: MemoryStore, *, times: int) -> None:
        super().__init__(store)
        self.times = times

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> Any:
        self.times -= 1
        return False if self.times >= 0 else super().publish(part, rows)


@pytest.mark.row("S20")
def test_an_older_checkpoint_that_fails_blocks_newer_ones_and_is_retried(store: MemoryStore) -> None:
    sink = started(write_ahead(store, target=Failing(store, times=3)))
    for checkpoint_id in (1, 2):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    assert [1] == list(sink.notify_complete(1) or ())
    assert [1, 2] == list(sink.notify_complete(2) or ())
    assert [1, 2] == list(sink.notify_complete(1) or ())  # a late notification changes nothing
    assert [] == offsets(store)
    assert [] == list(sink.settle(1.0) or ())
    assert [1, 2] == offsets(store)


@pytest.mark.row("S20")
def test_a_restore_sends_only_parts_that_the_committer_has_not_recorded(store: MemoryStore) -> None:
    sink = started(write_ahead(store))
    sink.write(batch(0))
    sink.snapshot(1)
    sink.write(batch(1))
    state = sink.snapshot(2)
    sink.notify_complete(1)
    restored(write_ahead(store), 2, state, checkpoint_id_restored=2)
    assert [0, 1] == offsets(store)
    restored(write_ahead(store), 3, state, checkpoint_id_restored=2)
    assert [0, 1] == offsets(store)


class Crashed(BaseException):
    """The process crashes here."""


def crashing_at(point: str, occurrence: int) -> Any:
    passed = []

    def reach(reached: str) -> None:
        passed.append(reached)
        if passed.count(point) == occurrence and reached == point:
            raise Crashed

    return reach


@pytest.mark.row("S20")
@pytest.mark.parametrize(
    ("place", "log"),
    [(("append.before", 2), [0, 0, 1]), (("record.before", 1), [0, 1, 0, 1]), (("record.after", 1), [0, 1])],
    ids=["hole: in the middle of sending", "hole: between sending and recording", "recorded"],
)
def test_a_crash_while_sending_or_before_recording_repeats_rows(
    store: MemoryStore, place: tuple[str, int], log: list[int]
) -> None:
    sink = started(write_ahead(store), reach=crashing_at(*place))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    with pytest.raises(Crashed):
        sink.notify_complete(1)
    restored(write_ahead(store), 2, state)
    assert log == offsets(store)


@pytest.mark.row("S20")
def test_an_upsert_target_hides_both_kinds_of_repeats_from_readers_of_the_table(store: MemoryStore) -> None:
    sink = started(write_ahead(store, target=MemoryTable(store)), reach=crashing_at("record.before", 1))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    with pytest.raises(Crashed):
        sink.notify_complete(1)
    restored(write_ahead(store, target=MemoryTable(store)), 2, state)
    assert [0, 1] == offsets(store)
    assert [(0, 0), (0, 1), (0, 0), (0, 1)] == store.read_changes()


@pytest.mark.row("S20")
def test_rows_of_removed_subtasks_are_sent_under_the_names_that_earlier_attempts_recorded(store: MemoryStore) -> None:
    old = [started(write_ahead(store), subtask=subtask, parallelism=2) for subtask in (0, 1)]
    for subtask, sink in enumerate(old):
        sink.write(batch(subtask))
    states = [sink.snapshot(1) for sink in old]
    old[1].notify_complete(1)
    restored(write_ahead(store), 2, *states)
    assert [1, 0] == offsets(store)
    assert ["sink-0-1", "sink-1-1"] == sorted(store.recorded)


class LeavesTemporaries(MemoryLog):
    """Each call of publish leaves a temporary entry until it is collected."""

    __slots__ = ("heap",)

    def __init__(self, store: MemoryStore, heap: list[int]) -> None:
        super().__init__(store)
        self.heap = heap

    def attach(self, context: Context) -> None:
        super().attach(context)
        self.heap.append(context.generation)

    def collect(self, owner: Owner, before_generation: int) -> None:
        self.heap[:] = [generation for generation in self.heap if generation >= before_generation]


@pytest.mark.row("S20")
def test_leftovers_are_collected_before_anything_is_sent_so_that_they_do_not_grow(store: MemoryStore) -> None:
    heap: list[int] = []
    sink = started(write_ahead(store, target=LeavesTemporaries(store, heap)))
    sink.write(batch(0))
    state = sink.snapshot(1)
    for generation in range(2, 10):
        with pytest.raises(Crashed):
            restored(
                write_ahead(store, target=LeavesTemporaries(store, heap)),
                generation,
                state,
                reach=crashing_at("publish.before", 1),
            )
    assert [9] == heap
