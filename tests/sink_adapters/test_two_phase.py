"""Two-phase commit, driven call by call on a store in memory: visibility, restores, fencing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sinkproof.sink_adapters.memory.memory_clients import MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import CommitOutcome, Fenced, TransactionLost
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.snapshot_bytes import DamagedState, decode, decode_value, encode_value
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

from .by_hand import batch, offsets, restored, started, two_phase


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
    again = restored(two_phase(store), 2, state, checkpoint_id_restored=2)
    assert [0, 1] == offsets(store)
    assert [] == store.residue()
    again.write(batch(2, 3))
    again.snapshot(4)
    again.notify_complete(4)
    assert [0, 1, 2, 3] == offsets(store)


@pytest.mark.row("S21")
def test_a_transaction_committed_before_the_crash_is_not_committed_twice(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    state = sink.snapshot(1)
    sink.notify_complete(1)
    for generation in (2, 3):
        restored(two_phase(store), generation, state)
    assert [0] == offsets(store)


@pytest.mark.row("S21")
def test_a_committed_transaction_leaves_the_state_and_a_checkpoint_without_rows_adds_none(store: MemoryStore) -> None:
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
    restored(two_phase(store), 2, *states)
    assert [0, 1, 2] == offsets(store)
    assert [] == store.residue()


@pytest.mark.row("S11")
def test_after_scale_out_each_subtask_settles_only_its_own_work(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    state = sink.snapshot(1)
    common: dict[str, Any] = {"checkpoint_id_restored": 1, "parallelism": 2, "subtasks_restored": [0]}
    second = started(two_phase(store), generation=2, subtask=1, restored=[], **common)
    assert ["sink-0-1-1"] == store.residue()
    started(two_phase(store), generation=2, subtask=0, restored=[(0, state)], **common)
    second.write(batch(1))
    second.snapshot(2)
    second.notify_complete(2)
    assert [0, 1] == offsets(store)


@pytest.mark.row("S11")
def test_leftovers_of_an_attempt_with_more_subtasks_than_the_checkpoint_are_aborted(store: MemoryStore) -> None:
    started(two_phase(store), subtask=5, parallelism=6).write(batch(0))  # its checkpoint was never complete
    for subtask in (0, 1):
        started(two_phase(store), generation=2, subtask=subtask, parallelism=2)
    assert [] == store.residue()


@pytest.mark.row("S21")
def test_a_fenced_zombie_can_neither_add_rows_nor_restore_a_transaction(store: MemoryStore) -> None:
    zombie = started(two_phase(store))
    zombie.write(batch(0))
    state = zombie.snapshot(1)
    zombie.write(batch(1))
    restored(two_phase(store), 2, state)
    before = store.freeze()
    for act in (lambda: zombie.write(batch(2)), lambda: zombie.snapshot(2), lambda: zombie.notify_complete(1)):
        with pytest.raises(Fenced, match="generation 1 of sink has been replaced by 2"):
            act()
    assert before == store.freeze()


@pytest.mark.row("S21")
def test_a_zombie_that_was_suspended_in_open_is_fenced_too(store: MemoryStore) -> None:
    started(two_phase(store), generation=2)
    with pytest.raises(Fenced):
        started(two_phase(store), generation=1)


class Hesitant(MemoryTransactions):
    """Returns RETRY a given number of times."""

    __slots__ = ("asked", "times")

    def __init__(self, store: MemoryStore, *, times: int) -> None:
        super().__init__(store)
        self.times, self.asked = times, 0

    def commit(self, handle: bytes) -> CommitOutcome:
        self.asked += 1
        return CommitOutcome.RETRY if self.asked <= self.times else super().commit(handle)


@pytest.mark.row("S21")
def test_an_older_transaction_in_doubt_is_returned_as_unsettled_and_delays_newer_ones(store: MemoryStore) -> None:
    sink = started(TwoPhaseCommitSink(Hesitant(store, times=2)))
    for checkpoint_id in (1, 2, 3):
        sink.write(batch(checkpoint_id))
        sink.snapshot(checkpoint_id)
    assert [1, 2] == list(sink.notify_complete(2) or ())
    assert [1] == list(sink.notify_complete(1) or ())[:1]  # a late notification changes nothing
    assert [] == offsets(store)
    assert [] == list(sink.settle(2.0) or ())
    assert [1, 2] == offsets(store)


@pytest.mark.row("S21")
def test_a_transaction_in_doubt_after_a_restore_is_not_aborted_and_is_settled_later(store: MemoryStore) -> None:
    sink = started(two_phase(store))
    sink.write(batch(0))
    state = sink.snapshot(1)
    again = restored(TwoPhaseCommitSink(Hesitant(store, times=1)), 2, state)
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
        restored(two_phase(store), 2, state)


@pytest.mark.row("S21")
def test_a_transaction_near_its_timeout_is_warned_about_and_then_lost_with_an_error(
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
        restored(two_phase(store, transaction_timeout=100.0), 2, state, clock=lambda: now[0])
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
    again = restored(TwoPhaseCommitSink(target), 2, *states)
    assert [{"pool": 0}, {"pool": 1}] == made == target.used
    assert b'{"pending":[],"user":["j",{"pool":0}]}' == again.snapshot(2)


@pytest.mark.parametrize("state", [b"", b"{}", b"[]", b"\xff", b'{"pending":[[1]]}', b'{"pending":[[1,"x","zz"]]}'])
def test_a_damaged_state_is_refused_and_not_treated_as_empty(store: MemoryStore, state: bytes) -> None:
    with pytest.raises(DamagedState, match="two-phase"):
        restored(two_phase(store), 2, state)


@pytest.mark.parametrize("value", ["caf\udce9", "\ud83d", "\U0001f600", 2**70, -0.0, b"\xff", {"a": [1, None]}])
def test_a_value_of_a_state_comes_back_as_it_was(value: Any) -> None:
    """Names of files that are no UTF-8 have half a surrogate pair."""
    state = f'{{"value":[{encode_value(value)}]}}'.encode()
    assert repr(value) == repr(decode_value(*decode(state, strategy="any")["value"]))


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
