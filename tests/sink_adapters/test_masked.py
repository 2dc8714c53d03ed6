"""The masked strategy, driven call by call: rows are hidden until the marker, collected if no marker covers them."""

from __future__ import annotations

import pytest

from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.file_readers import masked_text
from sinkproof.sink_adapters.memory.memory_clients import MemorySegments
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import CommitOutcome
from sinkproof.sink_adapters.strategies.masked import MaskedSink

from .by_hand import batch, masked_files, offsets, restored, started


def masked(store: MemoryStore) -> MaskedSink:
    return MaskedSink(MemorySegments(store))


@pytest.mark.row("S25")
def test_staged_rows_are_hidden_until_the_marker_and_a_marker_covers_older_checkpoints(store: MemoryStore) -> None:
    sink = started(masked(store))
    for checkpoint_id in (1, 2, 3):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    assert [] == offsets(store)
    sink.notify_aborted(1)
    sink.notify_complete(2)
    sink.notify_complete(1)
    assert [1, 2] == offsets(store)
    assert ["sink-0-1-3"] == store.residue()


@pytest.mark.row("S25")
def test_a_checkpoint_becomes_visible_all_at_once_across_subtasks(store: MemoryStore) -> None:
    sinks = [started(masked(store), subtask=subtask, parallelism=2) for subtask in (0, 1)]
    for subtask, sink in enumerate(sinks):
        sink.write(batch(subtask))
        sink.snapshot(1)
    sinks[1].notify_complete(1)
    assert [0, 1] == offsets(store)
    version = store.version
    sinks[0].notify_complete(1)
    assert version == store.version


@pytest.mark.row("S25")
def test_a_restore_reveals_first_and_then_collects_what_no_marker_covers(store: MemoryStore) -> None:
    old = [started(masked(store), subtask=subtask, parallelism=3) for subtask in range(3)]
    for subtask, sink in enumerate(old):
        sink.write(batch(subtask))
    states = [sink.snapshot(1) for sink in old]
    for subtask, sink in enumerate(old):
        sink.write(batch(10 + subtask))
        sink.snapshot(2)  # acknowledged, never complete
    restored(masked(store), 2, *states)
    assert ([0, 1, 2], []) == (offsets(store), store.residue())


@pytest.mark.row("S25")
def test_a_zombie_can_neither_lower_the_marker_nor_reveal_rows(store: MemoryStore) -> None:
    zombie = started(masked(store))
    zombie.write(batch(0))
    state = zombie.snapshot(1)
    zombie.write(batch(1))
    again = restored(masked(store), 2, state)
    again.write(batch(1, 2))
    again.snapshot(2)
    again.notify_complete(2)
    zombie.write(batch(2))
    zombie.snapshot(3)
    zombie.notify_complete(1)
    assert [0, 1, 2] == offsets(store)
    restored(masked(store), 3, again.snapshot(3), checkpoint_id_restored=2)
    assert ([0, 1, 2], []) == (offsets(store), store.residue())


@pytest.mark.row("S25")
def test_an_attempt_that_staged_nothing_reveals_nothing_when_restored(store: MemoryStore) -> None:
    assert b"{}" == started(masked(store)).snapshot(1)
    restored(masked(store), 2, b"{}")
    assert {} == store.markers


# -- the state text of explorers ---------------------------------------------------------------


@pytest.mark.parametrize("target", ["memory", "files"])
def test_the_state_text_counts_unrevealable_segments_up_to_two(store: MemoryStore, target: str) -> None:
    disk = MemoryDisk()

    def text(live: str) -> str:
        return store.canonical(live) if target == "memory" else masked_text(disk, live)

    sinks = [masked(store) if target == "memory" else masked_files(disk) for _ in range(4)]
    for number, sink in enumerate(sinks):
        started(sink, generation=700001 + number)
    texts = []
    for number, sink in enumerate(sinks):
        sink.write(batch(number))
        sink.snapshot(1)
        texts.append(text("... 700001 ..."))
    assert "700001-" in texts[0]
    assert not any(name in texts[-1] for name in ("700002", "700003", "700004")), texts[-1]
    assert 3 == len(set(texts)), "none, one, two; and three are as two"
    assert texts[2] == texts[3]
    assert "700001" not in text("nothing")


class SlowMarker(MemorySegments):
    __slots__ = ("times",)

    def __init__(self, store: MemoryStore, *, times: int) -> None:
        super().__init__(store)
        self.times = times

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome:
        self.times -= 1
        return CommitOutcome.RETRY if self.times >= 0 else super().reveal(generation, checkpoint_id)


@pytest.mark.row("S25")
def test_a_marker_that_could_not_be_written_yet_is_reported_as_unsettled_and_retried(store: MemoryStore) -> None:
    sink = started(MaskedSink(SlowMarker(store, times=2)))
    for checkpoint_id in (1, 2):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    assert [1, 2] == list(sink.notify_complete(2) or ())
    assert [1, 2] == list(sink.notify_complete(1) or ())  # a late notification changes nothing
    assert [] == list(sink.settle(2.0) or ())
    assert [1, 2] == offsets(store)
