"""The strategies, driven by hand over a store in memory: what becomes visible when, and what a new attempt makes of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from sinkproof.sink_adapters.adapt import adapt
from sinkproof.sink_adapters.idempotent import IdempotentSink
from sinkproof.sink_adapters.identity import CheckpointPart, Owner, Transaction
from sinkproof.sink_adapters.masked import MaskedSink
from sinkproof.sink_adapters.memory import MemoryCommitter, MemoryLog, MemorySegments, MemoryTable, MemoryTransactions
from sinkproof.sink_adapters.memory_store import MemoryStore
from sinkproof.sink_adapters.plain import PlainSink
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Fenced, Row, Sink, TransactionLost
from sinkproof.sink_adapters.state import DamagedState
from sinkproof.sink_adapters.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.write_ahead import WriteAheadSink


def batch(*offsets: int) -> Batch:
    return Batch(Row(0, offset, f"k{offset}", f"v{offset}") for offset in offsets)


def offsets(store: MemoryStore) -> list[int]:
    return [offset for _, offset in store.read()]


def started(sink: Sink, generation: int = 1, **context: Any) -> Sink:  # noqa: the generation is what tells attempts apart
    sink.open(Context(generation=generation, **context))
    return sink


def restored(sink: Sink, generation: int, checkpoint_id: int, *states: bytes, **context: Any) -> Sink:
    """A new attempt that gets all the states there are, as the only subtask."""
    return started(
        sink,
        generation,
        checkpoint_id_restored=checkpoint_id,
        parallelism_restored=len(states),
        restored=list(enumerate(states)),
        subtasks_restored=range(len(states)),
        **context,
    )


@pytest.fixture()
def store() -> MemoryStore:
    return MemoryStore()


def two_phase(store: MemoryStore, **options: Any) -> TwoPhaseCommitSink:
    return TwoPhaseCommitSink(MemoryTransactions(store, **options))


# -- two-phase commit -------------------------------------------------------------------------------------------------


@pytest.mark.row("S18")
def test_rows_of_a_checkpoint_are_visible_when_it_is_complete_and_not_before(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0, 1))
    assert [] == offsets(store)
    sink.snapshot(1)
    sink.write(batch(2))
    assert [] == offsets(store)
    assert [] == list(sink.notify_complete(1) or ())
    assert [0, 1] == offsets(store)


@pytest.mark.row("S21")
def test_a_notification_covers_older_checkpoints_and_no_newer_one(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    for checkpoint_id in (1, 2, 3):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    sink.notify_complete(2)
    assert [1, 2] == offsets(store)
    sink.notify_complete(1)
    sink.notify_complete(2)
    assert [1, 2] == offsets(store)
    sink.notify_complete(3)
    assert [1, 2, 3] == offsets(store)


@pytest.mark.row("S18")
def test_rows_of_an_aborted_checkpoint_come_with_the_next_complete_one(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    sink.snapshot(1)
    sink.notify_aborted(1)
    sink.write(batch(1))
    sink.snapshot(2)
    assert [] == offsets(store)
    sink.notify_complete(2)
    assert [0, 1] == offsets(store)


@pytest.mark.row("S18")
def test_a_restore_commits_what_its_checkpoint_promised_and_aborts_everything_newer(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    sink.snapshot(1)
    sink.write(batch(1))
    state = sink.snapshot(2)
    sink.write(batch(2))
    sink.snapshot(3)  # acknowledged, never complete
    sink.write(batch(3))  # still open
    again = restored(two_phase(store), 2, 2, state)
    assert [0, 1] == offsets(store)
    assert [] == store.residue()
    again.write(batch(2, 3))
    again.snapshot(4)
    again.notify_complete(4)
    assert [0, 1, 2, 3] == offsets(store)


@pytest.mark.row("S21")
def test_a_commit_that_was_done_before_the_crash_is_not_done_twice(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    state = sink.snapshot(1)
    sink.notify_complete(1)
    for generation in (2, 3):
        restored(two_phase(store), generation, 1, state)
    assert [0] == offsets(store)


@pytest.mark.row("S21")
def test_what_was_committed_leaves_the_state_and_an_epoch_without_rows_adds_nothing(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    assert b'{"pending":[]}' == sink.snapshot(1)
    assert [] == store.residue()
    sink.write(batch(0))
    assert b'{"pending":[[2,"b","sink-0-1-2"]]}' == sink.snapshot(2)
    sink.notify_complete(2)
    assert b'{"pending":[]}' == sink.snapshot(3)


@pytest.mark.row("S11")
def test_fewer_subtasks_settle_the_work_of_removed_ones(store: MemoryStore) -> None:
    old = [started(two_phase(store), subtask=subtask, parallelism=3) for subtask in range(3)]
    for subtask, sink in enumerate(old):
        sink.write(batch(subtask))
    states = [sink.snapshot(1) for sink in old]
    for subtask, sink in enumerate(old):
        sink.write(batch(10 + subtask))
    restored(two_phase(store), 2, 1, *states)
    assert [0, 1, 2] == offsets(store)
    assert [] == store.residue()


@pytest.mark.row("S11")
def test_more_subtasks_each_take_their_own_and_leave_the_others(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    state = sink.snapshot(1)
    common: dict[str, Any] = {"checkpoint_id_restored": 1, "parallelism": 2, "subtasks_restored": [0]}
    second = started(two_phase(store), 2, subtask=1, restored=[], **common)
    assert ["sink-0-1-1"] == store.residue()
    started(two_phase(store), 2, subtask=0, restored=[(0, state)], **common)
    second.write(batch(1))
    second.snapshot(2)
    second.notify_complete(2)
    assert [0, 1] == offsets(store)


@pytest.mark.row("S11")
def test_leftovers_of_an_attempt_with_more_subtasks_than_the_checkpoint_knew_are_swept(store: MemoryStore) -> None:
    started(two_phase(store), 1, subtask=5, parallelism=6).write(batch(0))  # its checkpoint was never complete
    for subtask in (0, 1):
        started(two_phase(store), 2, subtask=subtask, parallelism=2)
    assert [] == store.residue()


@pytest.mark.row("S21")
def test_a_zombie_is_fenced_and_can_neither_add_nor_revive(store: MemoryStore) -> None:
    zombie = started(two_phase(store))
    zombie.write(batch(0))
    state = zombie.snapshot(1)
    zombie.write(batch(1))
    restored(two_phase(store), 2, 1, state)
    before = store.freeze()
    for act in (lambda: zombie.write(batch(2)), lambda: zombie.snapshot(2), lambda: zombie.notify_complete(1)):
        with pytest.raises(Fenced, match="generation 1 of sink has been replaced by 2"):
            act()
    assert before == store.freeze()


@pytest.mark.row("S21")
def test_a_zombie_that_slept_in_open_is_fenced_too(store: MemoryStore) -> None:
    started(two_phase(store), 2)
    with pytest.raises(Fenced):
        started(two_phase(store), 1)


class Hesitant(MemoryTransactions):
    """Does not know yet, as often as it is told not to."""

    __slots__ = ("asked", "times")

    def __init__(self, store: MemoryStore, *, times: int) -> None:
        super().__init__(store)
        self.times, self.asked = times, 0

    def commit(self, handle: bytes) -> CommitOutcome:
        self.asked += 1
        return CommitOutcome.RETRY if self.asked <= self.times else super().commit(handle)


@pytest.mark.row("S21")
def test_an_older_transaction_in_doubt_is_told_to_the_engine_and_holds_newer_ones_back(store: MemoryStore) -> None:
    sink = started(TwoPhaseCommitSink(Hesitant(store, times=2)))
    for checkpoint_id in (1, 2, 3):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    assert [1, 2] == list(sink.notify_complete(2) or ())
    assert [1, 2] == list(sink.settle(1.0) or ())
    assert [] == offsets(store)
    assert [] == list(sink.settle(2.0) or ())
    assert [1, 2] == offsets(store)


@pytest.mark.row("S21")
def test_what_is_in_doubt_after_a_restore_is_not_swept_and_is_settled_later(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    state = sink.snapshot(1)
    again = restored(TwoPhaseCommitSink(Hesitant(store, times=1)), 2, 1, state)
    assert (["sink-0-1-1"], []) == (store.residue(), offsets(store))
    assert b'{"pending":[[1,"b","sink-0-1-1"]]}' == again.snapshot(2)
    assert [] == list(again.notify_complete(2) or ())
    assert [0] == offsets(store)


@pytest.mark.row("S21")
def test_a_lost_transaction_fails_the_job_with_the_evidence(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    state = sink.snapshot(1)
    store.abort(("sink", 1), "sink-0-1-1")
    with pytest.raises(TransactionLost, match=r"checkpoint 1 of sink-0 is complete.*sink-0-1-1"):
        sink.notify_complete(1)
    with pytest.raises(TransactionLost):
        restored(two_phase(store), 2, 1, state)


@pytest.mark.row("S21")
def test_a_transaction_that_times_out_is_warned_about_and_then_loudly_lost(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    sink = started(two_phase(store, transaction_timeout=100.0), clock=lambda: now[0])
    sink.write(batch(0))
    state = sink.snapshot(1)
    now[0] = 79.0
    with caplog.at_level(logging.WARNING):
        sink.snapshot(2)
        assert [] == caplog.messages
        now[0] = 80.0
        sink.snapshot(3)
        sink.settle(81.0)
    assert 1 == len(caplog.messages)
    assert "checkpoint 1 has been pending for 80 s" in caplog.messages[0]
    now[0] = 101.0
    with pytest.raises(TransactionLost, match="begun 101 s ago, timeout 100 s"):
        restored(two_phase(store, transaction_timeout=100.0), 2, 1, state, clock=lambda: now[0])
    assert [] == offsets(store)


class WithUserContext(MemoryTransactions):
    __slots__ = ("made", "used")

    def __init__(self, store: MemoryStore, made: list[dict[str, int]]) -> None:
        super().__init__(store)
        self.made, self.used = made, []

    def new_user_context(self) -> dict[str, int]:
        self.made.append({"pool": len(self.made)})
        return self.made[-1]

    def use_user_contexts(self, contexts: list[Any]) -> None:
        self.used = contexts


@pytest.mark.row("S21")
def test_the_user_context_is_set_once_per_subtask_and_survives_restores_and_rescaling(store: MemoryStore) -> None:
    made: list[dict[str, int]] = []
    sinks = [
        started(TwoPhaseCommitSink(WithUserContext(store, made)), subtask=subtask, parallelism=2) for subtask in (0, 1)
    ]
    states = [sink.snapshot(1) for sink in sinks]
    assert b'{"pending":[],"user":["j",{"pool":1}]}' == states[1]
    target = WithUserContext(store, made)
    again = restored(TwoPhaseCommitSink(target), 2, 1, *states)
    assert [{"pool": 0}, {"pool": 1}] == made == target.used
    assert b'{"pending":[],"user":["j",{"pool":0}]}' == again.snapshot(2)


@pytest.mark.parametrize("state", [b"", b"{}", b"[]", b"\xff", b'{"pending":[[1]]}', b'{"pending":[[1,"x","zz"]]}'])
def test_a_damaged_state_is_refused_and_not_taken_for_an_empty_one(store: MemoryStore, state: bytes) -> None:
    with pytest.raises(DamagedState, match="two-phase"):
        restored(two_phase(store), 2, 1, state)


# -- targets of other people ------------------------------------------------------------------------------------------


class FiveMethods:
    """Somebody's target: five methods, and a dictionary that outlives the process."""

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
def test_a_target_of_five_methods_is_taken_as_it_is_whatever_its_handles_are(kind: str) -> None:
    world: dict[str, Any] = {}
    sink = started(adapt(FiveMethods(world, HANDLES[kind])))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    assert {"pending sink-0-1-1": [0, 1]} == world
    again = restored(adapt(FiveMethods(world, HANDLES[kind])), 2, 1, state)
    assert {"done sink-0-1-1": [0, 1]} == world
    again.write(batch(2))
    again.snapshot(2)
    again.notify_complete(2)
    assert {"done sink-0-1-1": [0, 1], "done sink-0-2-2": [2]} == world


def test_a_target_that_cannot_list_what_lingers_is_told_to_abort_when_the_sink_is_closed() -> None:
    target = FiveMethods({}, str)
    sink = started(adapt(target))
    sink.write(batch(0))
    sink.close()
    assert {} == target.rows


def test_a_handle_that_no_checkpoint_can_hold_is_refused_when_it_is_made() -> None:
    sink = started(adapt(FiveMethods({}, lambda name: object())))
    sink.write(batch(0))
    with pytest.raises(TypeError, match="a object cannot be kept in a checkpoint"):
        sink.snapshot(1)


def test_an_outcome_that_is_none_is_refused(store: MemoryStore) -> None:
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
    """In the manner of GenericWriteAheadSink and its committer, in one object."""

    def __init__(self, world: list[Any]) -> None:
        self.world = world

    def send_values(self, values: Sequence[Row], checkpoint_id: int, timestamp: int) -> bool:
        self.world += [(checkpoint_id, row.offset) for row in values]
        return True

    def is_committed(self, subtask_index: int, checkpoint_id: int) -> bool:
        return ("sent", subtask_index, checkpoint_id) in self.world

    def record(self, subtask_index: int, checkpoint_id: int) -> None:
        self.world.append(("sent", subtask_index, checkpoint_id))


class Sender:
    def __init__(self, world: list[Any]) -> None:
        self.world = world

    def publish(self, rows: Sequence[Row], checkpoint_id: int) -> None:
        self.world += [(checkpoint_id, row.offset) for row in rows]


class Rememberer:
    def __init__(self, world: list[Any]) -> None:
        self.world = world

    def is_committed(self, checkpoint_id: int) -> bool:
        return ("sent", 0, checkpoint_id) in self.world

    def record(self, checkpoint_id: int) -> None:
        self.world.append(("sent", 0, checkpoint_id))


@pytest.mark.row("S20")
@pytest.mark.parametrize("make", [FlinkLike, lambda world: (Sender(world), Rememberer(world))], ids=["one", "two"])
def test_write_ahead_targets_in_the_manner_of_flink_are_taken_as_they_are(make: Any) -> None:
    world: list[Any] = []
    sink = started(adapt(make(world)))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    sink.notify_complete(1)
    assert [(1, 0), (1, 1), ("sent", 0, 1)] == world
    restored(adapt(make(world)), 2, 1, state)
    assert [(1, 0), (1, 1), ("sent", 0, 1)] == world


def test_a_sink_is_left_as_it_is_and_targets_are_known_by_their_methods(store: MemoryStore) -> None:
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


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (Unfinished(), "Unfinished has begin, write, commit, but lacks pre_commit, abort to be a two-phase target"),
        (object(), "object is neither a sink nor a target"),
        (None, "NoneType is neither a sink nor a target"),
        (Unfinished, "Unfinished is a class; return an object of it"),
    ],
)
def test_what_cannot_be_used_is_refused_and_the_message_says_what_is_missing(thing: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        adapt(thing)


# -- write-ahead ------------------------------------------------------------------------------------------------------


def write_ahead(store: MemoryStore, target: Any = None) -> WriteAheadSink:  # noqa: the target is what differs
    return WriteAheadSink(target or MemoryLog(store), MemoryCommitter(store))


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
    """Cannot send right now, as often as it is told."""

    __slots__ = ("times",)

    def __init__(self, store: MemoryStore, *, times: int) -> None:
        super().__init__(store)
        self.times = times

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> Any:
        self.times -= 1
        return False if self.times >= 0 else super().publish(part, rows)


@pytest.mark.row("S20")
def test_an_older_checkpoint_that_fails_blocks_newer_ones_and_is_tried_again(store: MemoryStore) -> None:
    sink = started(write_ahead(store, Failing(store, times=2)))
    for checkpoint_id in (1, 2):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    assert [1] == list(sink.notify_complete(1) or ())
    assert [1, 2] == list(sink.notify_complete(2) or ())
    assert [] == offsets(store)
    assert [] == list(sink.settle(1.0) or ())
    assert [1, 2] == offsets(store)


@pytest.mark.row("S20")
def test_a_restore_sends_what_the_committer_does_not_have_and_nothing_else(store: MemoryStore) -> None:
    sink = started(write_ahead(store))
    sink.write(batch(0))
    sink.snapshot(1)
    sink.write(batch(1))
    state = sink.snapshot(2)
    sink.notify_complete(1)
    restored(write_ahead(store), 2, 2, state)
    assert [0, 1] == offsets(store)
    restored(write_ahead(store), 3, 2, state)
    assert [0, 1] == offsets(store)


class Died(BaseException):
    """The process ends here."""


def dying_at(point: str, occurrence: int) -> Any:
    passed = []

    def reach(reached: str) -> None:
        passed.append(reached)
        if passed.count(point) == occurrence and reached == point:
            raise Died

    return reach


@pytest.mark.row("S20")
@pytest.mark.parametrize(
    ("point", "occurrence", "log"),
    [("append.before", 2, [0, 0, 1]), ("record.before", 1, [0, 1, 0, 1]), ("record.after", 1, [0, 1])],
    ids=["hole: in the middle of sending", "hole: between sending and recording", "recorded"],
)
def test_the_two_holes_of_write_ahead_are_there(
    store: MemoryStore, point: str, occurrence: int, log: list[int]
) -> None:
    sink = started(write_ahead(store), reach=dying_at(point, occurrence))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    with pytest.raises(Died):
        sink.notify_complete(1)
    restored(write_ahead(store), 2, 1, state)
    assert log == offsets(store)


@pytest.mark.row("S20")
def test_an_upsert_target_closes_both_holes_for_readers_of_the_table(store: MemoryStore) -> None:
    sink = started(write_ahead(store, MemoryTable(store)), reach=dying_at("record.before", 1))
    sink.write(batch(0, 1))
    state = sink.snapshot(1)
    with pytest.raises(Died):
        sink.notify_complete(1)
    restored(write_ahead(store, MemoryTable(store)), 2, 1, state)
    assert [0, 1] == offsets(store)
    assert [(0, 0), (0, 1), (0, 0), (0, 1)] == store.read_changes()


@pytest.mark.row("S20")
def test_rows_of_removed_subtasks_are_sent_under_the_names_that_earlier_attempts_recorded(store: MemoryStore) -> None:
    old = [started(write_ahead(store), subtask=subtask, parallelism=2) for subtask in (0, 1)]
    for subtask, sink in enumerate(old):
        sink.write(batch(subtask))
    states = [sink.snapshot(1) for sink in old]
    old[1].notify_complete(1)
    restored(write_ahead(store), 2, 1, *states)
    assert [1, 0] == offsets(store)
    assert ["sink-0-1", "sink-1-1"] == sorted(store.recorded)


class LeavesTemporaries(MemoryLog):
    """Each attempt to publish leaves something of its own, until it is collected."""

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
def test_leftovers_are_swept_before_anything_is_sent_so_that_they_cannot_pile_up(store: MemoryStore) -> None:
    heap: list[int] = []
    sink = started(write_ahead(store, LeavesTemporaries(store, heap)))
    sink.write(batch(0))
    state = sink.snapshot(1)
    for generation in range(2, 10):
        with pytest.raises(Died):
            restored(
                write_ahead(store, LeavesTemporaries(store, heap)),
                generation,
                1,
                state,
                reach=dying_at("publish.before", 1),
            )
    assert [9] == heap


# -- idempotent and plain ---------------------------------------------------------------------------------------------


@pytest.mark.row("S19")
def test_upserts_are_seen_early_and_again_but_are_right_in_the_end(store: MemoryStore) -> None:
    started(IdempotentSink(MemoryTable(store))).write(batch(0, 1))
    assert [0, 1] == offsets(store)
    started(IdempotentSink(MemoryTable(store)), 2).write(batch(0, 1, 2))
    assert [0, 1, 2] == offsets(store)
    assert [0, 1, 0, 1, 2] == [offset for _, offset in store.read_changes()]


@pytest.mark.row("S19")
def test_keys_that_a_replay_does_not_make_again_leave_rows_of_dead_attempts(store: MemoryStore) -> None:
    for generation in (1, 2):
        sink = IdempotentSink(MemoryTable(store), key=lambda row, generation=generation: f"{generation}-{row.offset}")
        started(sink, generation).write(batch(0, 1))
    assert [0, 0, 1, 1] == offsets(store)


@pytest.mark.row("S27")
def test_a_plain_sink_repeats_rows_after_a_crash_where_a_transactional_one_does_not(store: MemoryStore) -> None:
    transactional = MemoryStore()
    sinks = [started(PlainSink(MemoryLog(store))), started(two_phase(transactional))]
    for sink in sinks:
        sink.write(batch(0))
    states = [sink.snapshot(1) for sink in sinks]
    for sink in sinks:
        sink.notify_complete(1)
        sink.write(batch(1))  # and dies: row 1 is replayed
    again = [
        restored(PlainSink(MemoryLog(store)), 2, 1, states[0]),
        restored(two_phase(transactional), 2, 1, states[1]),
    ]
    for sink in again:
        sink.write(batch(1))
        sink.snapshot(2)
        sink.notify_complete(2)
    assert [0, 1, 1] == offsets(store)
    assert [0, 1] == offsets(transactional)


class Buffering:
    """Keeps what it is given until it is told to flush."""

    def __init__(self) -> None:
        self.buffer: list[Any] = []
        self.flushed: list[Any] = []

    def append(self, batch: Batch) -> None:
        self.buffer += batch

    def upsert(self, entries: Sequence[tuple[str, Row]]) -> None:
        self.buffer += [row for _, row in entries]

    def flush(self) -> None:
        self.flushed += self.buffer
        self.buffer = []


@pytest.mark.row("S19")
@pytest.mark.parametrize("strategy", [PlainSink, IdempotentSink])
def test_nothing_is_acknowledged_that_is_still_in_a_buffer(strategy: Any) -> None:
    target = Buffering()
    sink = started(strategy(target))
    sink.write(batch(0, 1))
    sink.snapshot(1)
    assert [0, 1] == [row.offset for row in target.flushed]


# -- masked -----------------------------------------------------------------------------------------------------------


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
    restored(masked(store), 2, 1, *states)
    assert ([0, 1, 2], []) == (offsets(store), store.residue())


@pytest.mark.row("S25")
def test_a_zombie_can_neither_lower_the_marker_nor_show_anything(store: MemoryStore) -> None:
    zombie = started(masked(store))
    zombie.write(batch(0))
    state = zombie.snapshot(1)
    zombie.write(batch(1))
    again = restored(masked(store), 2, 1, state)
    again.write(batch(1, 2))
    again.snapshot(2)
    again.notify_complete(2)
    zombie.write(batch(2))
    zombie.snapshot(3)
    zombie.notify_complete(1)
    assert [0, 1, 2] == offsets(store)
    restored(masked(store), 3, 2, again.snapshot(3))
    assert ([0, 1, 2], []) == (offsets(store), store.residue())


@pytest.mark.row("S25")
def test_an_attempt_that_staged_nothing_reveals_nothing_when_restored(store: MemoryStore) -> None:
    assert b"{}" == started(masked(store)).snapshot(1)
    restored(masked(store), 2, 1, b"{}")
    assert {} == store.markers


class SlowMarker(MemorySegments):
    __slots__ = ("times",)

    def __init__(self, store: MemoryStore, *, times: int) -> None:
        super().__init__(store)
        self.times = times

    def reveal(self, generation: int, checkpoint_id: int) -> CommitOutcome:
        self.times -= 1
        return CommitOutcome.RETRY if self.times >= 0 else super().reveal(generation, checkpoint_id)


@pytest.mark.row("S25")
def test_a_marker_that_could_not_be_written_yet_is_told_to_the_engine_and_tried_again(store: MemoryStore) -> None:
    sink = started(MaskedSink(SlowMarker(store, times=2)))
    sink.write(batch(0))
    sink.snapshot(1)
    assert [1] == list(sink.notify_complete(1) or ())
    assert [1] == list(sink.settle(1.0) or ())
    assert [] == list(sink.settle(2.0) or ())
    assert [0] == offsets(store)


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7])
def test_every_old_subtask_has_exactly_one_owner(parallelism: int) -> None:
    owners = [Owner("sink", subtask, parallelism) for subtask in range(parallelism)]
    assert [1] * 20 == [sum(owner.owns(old) for owner in owners) for old in range(20)]


def test_names_are_unique_per_attempt_and_checkpoint_and_can_be_read_back() -> None:
    owners = [Owner(sink_id, subtask, 9) for sink_id in ("a", "a-1", "a-1-2") for subtask in (1, 2)]
    names = [Transaction.of(owner, generation, at) for owner in owners for generation in (1, 2) for at in (1, 2)]
    assert len(names) == len(set(names))
    parsed = [Transaction.parse(str(name)) for name in names]
    assert [(name.sink_id, name.order) for name in names] == [(name.sink_id, name.order) for name in parsed]
