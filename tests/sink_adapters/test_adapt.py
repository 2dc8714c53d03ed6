"""Users' targets: five methods and nothing else, or in the style of Flink's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sinkproof.sink_adapters.memory.memory_clients import MemoryCommitter, MemoryLog, MemorySegments, MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.sink_adapters.strategies.adapt_to_sink import adapt
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

from .by_hand import batch, restored, started, two_phase


class FiveMethods:
    """A user's target: five methods, and a dictionary that outlives the process."""

    def __init__(self, world: dict[str, Any], handle_of: Any) -> None:
        self.world, self.handle_of = world, handle_of
        self.rows: dict[str, list[int]] = {}

    def begin(self, transaction: str) -> None:
        self.rows[transaction] = []

    def write(self, transaction: str, batch: Batch) -> None:
        self.rows[transaction] += [row.offset for row in batch]

    def pre_commit(self, transaction: str) -> Any:
        self.world[f"pending {transaction}"] = self.rows.pop(transaction)
        return self.handle_of(transaction)

    def commit(self, handle: Any) -> None:
        name = (
            handle if isinstance(handle, str) else handle[1:].decode() if isinstance(handle, bytes) else handle["name"]
        )
        if f"pending {name}" in self.world:
            self.world[f"done {name}"] = self.world.pop(f"pending {name}")

    def abort(self, transaction: str) -> None:
        del self.rows[transaction]


HANDLES = {
    "text": lambda name: str(name),
    "bytes": lambda name: b"!" + name.encode(),
    "bytes that are no text": lambda name: b"\xff" + name.encode(),
    "an object": lambda name: {"name": name, "parts": [1, 2]},
}


@pytest.mark.row("S21")
@pytest.mark.parametrize("kind", HANDLES)
def test_a_target_of_five_methods_works_with_any_kind_of_handle(kind: str) -> None:
    world: dict[str, Any] = {}
    sink = started(adapt(FiveMethods(world, HANDLES[kind])))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    assert {"pending sink-0-1-1": [0, 1]} == world
    again = restored(adapt(FiveMethods(world, HANDLES[kind])), 2, state)
    assert {"done sink-0-1-1": [0, 1]} == world
    again.write(batch(2))
    again.snapshot(2)
    again.notify_complete(2)
    assert {"done sink-0-1-1": [0, 1], "done sink-0-2-2": [2]} == world


def test_close_aborts_on_a_target_that_cannot_list_lingering_transactions() -> None:
    target = FiveMethods({}, str)
    sink = started(adapt(target))
    sink.write(batch(0))
    sink.close()
    assert {} == target.rows


def test_a_handle_that_no_checkpoint_can_hold_is_refused_when_it_is_made() -> None:
    sink = started(adapt(FiveMethods({}, lambda name: object())))
    sink.write(batch(0))
    with pytest.raises(TypeError, match="a value of type object cannot be kept in a checkpoint"):
        sink.snapshot(1)


def test_a_commit_result_that_is_no_outcome_is_refused(store: MemoryStore) -> None:
    class Confused(MemoryTransactions):
        def commit(self, handle: bytes) -> Any:
            return False

    sink = started(TwoPhaseCommitSink(Confused(store)))
    sink.write(batch(0))
    sink.snapshot(1)
    with pytest.raises(TypeError, match="commit\\(\\) returned False"):
        sink.notify_complete(1)


class NamesItsOwn(FiveMethods):
    def begin(self) -> str:  # type: ignore[override]
        name = f"mine-{len(self.world)}"
        self.rows[name] = []
        return name


def test_a_target_may_name_its_transactions_itself() -> None:
    world: dict[str, Any] = {}
    sink = started(adapt(NamesItsOwn(world, str)))
    sink.write(batch(0))
    sink.snapshot(1)
    sink.notify_complete(1)
    assert {"done mine-0": [0]} == world


class FlinkLike:
    """In the style of Flink's GenericWriteAheadSink and its committer, in one object."""

    def __init__(self, world: list[Any]) -> None:
        self.world = world

    def send_values(self, values: Sequence[Row], checkpoint_id: int, timestamp: int) -> bool:
        self.world += [(checkpoint_id, row.offset) for row in values]
        return True

    def is_committed(self, subtask_index: int, checkpoint_id: int) -> bool:
        return ("sent", subtask_index, checkpoint_id) in self.world

    def record(self, subtask_index: int, checkpoint_id: int) -> None:
        self.world.append(("sent", subtask_index, checkpoint_id))


class FlinkSender:
    def __init__(self, world: list[Any]) -> None:
        self.world = world

    def publish(self, rows: Sequence[Row], checkpoint_id: int) -> None:
        self.world += [(checkpoint_id, row.offset) for row in rows]


class FlinkCommitter:
    def __init__(self, world: list[Any]) -> None:
        self.world = world

    def is_committed(self, checkpoint_id: int) -> bool:
        return ("sent", 0, checkpoint_id) in self.world

    def record(self, checkpoint_id: int) -> None:
        self.world.append(("sent", 0, checkpoint_id))


@pytest.mark.row("S20")
@pytest.mark.parametrize(
    "make", [FlinkLike, lambda world: (FlinkSender(world), FlinkCommitter(world))], ids=["one", "two"]
)
def test_write_ahead_targets_in_the_style_of_flink_are_accepted(make: Any) -> None:
    world: list[Any] = []
    sink = started(adapt(make(world)))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    sink.notify_complete(1)
    assert [(1, 0), (1, 1), ("sent", 0, 1)] == world
    restored(adapt(make(world)), 2, state)
    assert [(1, 0), (1, 1), ("sent", 0, 1)] == world


def test_a_sink_is_taken_unchanged_and_targets_are_recognised_by_their_methods(store: MemoryStore) -> None:
    sink = two_phase(store)
    assert sink is adapt(sink)
    kinds = {
        TwoPhaseCommitSink: MemoryTransactions(store),
        MaskedSink: MemorySegments(store),
        WriteAheadSink: (MemoryLog(store), MemoryCommitter(store)),
    }
    assert list(kinds) == [type(adapt(target)) for target in kinds.values()]


class Unfinished:
    def begin(self, transaction: str) -> None: ...
    def write(self, transaction: str, batch: Batch) -> None: ...
    def commit(self, handle: str) -> None: ...


class Awaited:
    def open(self, context: Context) -> None: ...
    def write(self, batch: Batch) -> None: ...
    def snapshot(self, checkpoint_id: int) -> bytes: ...
    async def notify_complete(self, checkpoint_id: int) -> None: ...


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (Awaited(), r"Awaited.notify_complete is `async def`, and nothing awaits it. .* by asyncio.run"),
        (Unfinished(), "Unfinished has begin, write, commit, but lacks pre_commit, abort to be a two-phase target"),
        (object(), "object is neither a sink nor a target"),
        (None, "NoneType is neither a sink nor a target"),
        (Unfinished, "Unfinished is a class; return an object of it"),
    ],
)
def test_an_unusable_object_is_refused_and_the_message_names_what_is_missing(thing: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        adapt(thing)
