"""Two coordinators that are alive at once: at most one decides, in every store, in every order of their requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from threading import Barrier, Semaphore
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.exclusive_creation import refuse_unfit_store
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import DamagedCheckpoint
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_store import ObjectStore, UnfitStore, open_objects
from sinkproof.sink_adapters.protocol import Fenced
from tests.support.object_stores import (
    CreatingNothing,
    LastWins,
    LookingFirst,
    Objects,
    Overwriting,
    Stepped,
    in_memory,
    s3_server,
)

SINK = "sink[0]"
RACES = 8
Open = Callable[[], Any]


@pytest.fixture(params=["memory", "folder", "objects in a folder", "S3"])
def open_one(request: Any, tmp_path: Path) -> Open:
    """Another coordinator's access to the same checkpoints."""
    if request.param == "memory":
        objects = in_memory()
        return lambda: ObjectCheckpointStorage(objects)
    if request.param == "folder":
        return lambda: FolderCheckpointStorage(tmp_path / "checkpoints")
    is_folder = request.param != "S3"
    url = f"file://{tmp_path}/objects" if is_folder else request.getfixturevalue("bucket_url")
    return lambda: ObjectCheckpointStorage(open_objects(url))


def decide(storage: Any, checkpoint_id: int, state: bytes) -> bool:
    """Whether the checkpoint is complete with this state, as this coordinator has it."""
    try:
        kept = storage.store(checkpoint_id, SINK, {"sink": state})
        storage.decide(CheckpointRecord(checkpoint_id, False, {SINK: kept}, {"sink": 1}))
    except Fenced:
        return False
    return True


def claim(storage: Any) -> bool:
    """A folder fences a claimant that another one has overtaken within its claim."""
    try:
        storage.claim_generation()
    except Fenced:
        return False
    return True


def state_of(storage: Any) -> bytes:
    record = storage.latest()
    return record.states[SINK]["sink"] if record is not None else b""


# -- at once, in threads -----------------------------------------------------------------------------


def at_once(*deeds: Callable[[], Any]) -> list[Any]:
    together = Barrier(len(deeds))

    def start(deed: Callable[[], Any]) -> Any:
        together.wait()
        return deed()

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(start, deeds))


@pytest.mark.slow
@pytest.mark.row("S08")
def test_of_two_living_coordinators_only_the_newer_one_decides(open_one: Open) -> None:
    """Each of them claims a generation, and then decides the same checkpoint, at the same time as the other."""
    for race in range(1, RACES + 1):
        rivals = [open_one(), open_one()]
        claimed = at_once(*(partial(claim, rival) for rival in rivals))
        states = [f"race {race} rival {number}".encode() for number in range(2)]
        turns = [(one, state) for one, is_claimed, state in zip(rivals, claimed, states, strict=True) if is_claimed]
        won = at_once(*(partial(decide, one, race, state) for one, state in turns))
        newer, state = max(turns, key=lambda turn: turn[0].generation)
        assert [one is newer for one, _ in turns] == won
        assert state == state_of(open_one())


@pytest.mark.slow
@pytest.mark.row("S08")
def test_a_coordinator_decides_before_a_newer_one_claims_or_never(open_one: Open) -> None:
    """The newer one either restores from the decision, or makes one of its own."""
    old = open_one()
    old.claim_generation()
    for race in range(1, RACES + 1):
        new = open_one()
        state = f"{race}".encode()
        decided, _ = at_once(partial(decide, old, race, state), new.claim_generation)
        is_found = state == state_of(new)
        assert is_found or not decided  # fenced after its decision, the old one ends as well
        if not is_found:
            assert decide(new, race, b"another")
        old = open_one()
        old.claim_generation()


# -- in every order ----------------------------------------------------------------------------------


class Turns:
    """Runs two deeds in threads, one request at a time, in a given order; beyond it, in any."""

    def __init__(self, order: Iterator[int]) -> None:
        self.order, self.may_go, self.is_over = order, [Semaphore(0), Semaphore(0)], [False, False]
        self.requests = [0, 0]

    def reach_by(self, number: int, request: str) -> None:
        """Before each request of a deed: passes the turn on, and waits for its own."""
        self.requests[number] += 1
        self._next()
        self.may_go[number].acquire()

    def _next(self) -> None:
        turn = next(self.order, 0)
        self.may_go[1 - turn if self.is_over[turn] else turn].release()

    def run(self, *deeds: Callable[[], Any]) -> list[Any]:
        def start(number: int) -> Any:
            self.may_go[number].acquire()
            try:
                return deeds[number]()
            finally:
                self.is_over[number] = True
                self._next()

        with ThreadPoolExecutor(len(deeds)) as pool:
            running = [pool.submit(start, number) for number in range(len(deeds))]
            self._next()
            return [each.result() for each in running]


def never_tried(objects: ObjectStore) -> ObjectCheckpointStorage:
    """As if a wrong store had passed its trial."""
    storage = ObjectCheckpointStorage(objects)
    storage._is_probed = True
    return storage


REQUESTS_MOST = 26  # of one life, in a store that is right
AGAIN = (1, 2, 4)  # requests from the first one's resumption to its next interruption
STATES = (b"of one", b"of the other")


def live(storage: ObjectCheckpointStorage, state: bytes) -> bytes:
    """A coordinator's life: it claims a generation, restores, and decides checkpoint 2 if that is still to be decided.
    The state that it holds for decided; empty if it was fenced.
    """
    storage.claim_generation()
    found = state_of(storage)
    return found if found in STATES else state if decide(storage, 2, state) else b""


def explore(make: Callable[[], ObjectStore]) -> Iterator[str]:
    """Two lives, each interrupted after every number of requests, and the first once more: what went wrong."""
    for first, second, third in product(range(REQUESTS_MOST + 1), range(REQUESTS_MOST + 1), AGAIN):
        objects = make()
        before = never_tried(objects)
        before.claim_generation()
        decide(before, 1, b"first")
        turns = Turns(iter([0] * first + [1] * second + [0] * third + [1] * REQUESTS_MOST))
        lives = [never_tried(Stepped(objects, partial(turns.reach_by, number))) for number in range(2)]
        try:
            held = turns.run(*(partial(live, one, state) for one, state in zip(lives, STATES, strict=True)))
            kept = state_of(ObjectCheckpointStorage(objects))
        except DamagedCheckpoint as error:
            yield f"{first}, {second}, {third}: {error}"
            continue
        newer = max(range(2), key=lambda number: lives[number].generation)
        if {kept} != {each for each in held if each} or held[newer] != kept:
            yield f"{first}, {second}, {third}: {kept=}, {held=}, the newer one is {newer}"
        if max(turns.requests) > REQUESTS_MOST:
            yield f"{first}, {second}, {third}: {turns.requests} requests, more than are explored"


@pytest.mark.slow
@pytest.mark.row("S08")
def test_in_every_order_with_three_interruptions_the_newer_coordinator_decides() -> None:
    assert [] == list(explore(in_memory))


@pytest.mark.row("S08")
@pytest.mark.parametrize("kind", [Overwriting, LastWins])
def test_a_store_that_is_wrong_is_convicted_by_some_order(kind: type[Objects]) -> None:
    wrong = explore(lambda: kind(in_memory()))
    assert next((each for each in wrong if "more than" not in each), "")


# -- in a whole job ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.row("S08")
@pytest.mark.row("S09")
def test_a_job_with_a_deposed_coordinator_delivers_each_row_once(engine: Any, open_one: Open) -> None:
    """The explorer's split brain, at each point of the coordinator: the store itself fences the old one."""
    usual = engine.run(storage=open_one())
    points = Counter(point for actor, point in usual.simulation.trace if actor == 0 and point.startswith("checkpoint."))
    fenced = 0
    for point, times in points.items():
        for time in range(1, times + 1):
            storage = open_one()
            storage.claim_generation()
            storage.discard(0)
            run = engine.run(schedule=f"{point}#{time}=depose", storage=storage)
            assert run.simulation.finished, point
            assert engine.rows_of(engine.input()) == run.counts, f"{point}#{time}"
            fenced += len(run.noted("fenced"))
    assert fenced >= points["checkpoint.persist.before"]


def crashes_after_deposition(engine: Any, make: Callable[[], Any]) -> Iterator[str]:
    """Schedules: an old coordinator decides late, and then the whole job crashes, at each point in turn."""
    deposed = "checkpoint.persist.before#2=depose"
    for crash in engine.every_single_crash(engine.run(schedule=deposed, storage=make())):
        if crash.endswith("=kill-job"):
            yield f"{deposed} {crash}"


def delivers(engine: Any, schedule: str, storage: Any) -> bool:
    try:
        run = engine.run(schedule=schedule, storage=storage)
    except DamagedCheckpoint:
        return False
    return bool(engine.rows_of(engine.input()) == run.counts)


@pytest.mark.row("S08")
def test_no_crash_after_a_late_decision_loses_or_repeats_a_row(engine: Any) -> None:
    def make() -> ObjectCheckpointStorage:
        return never_tried(in_memory())

    schedules = list(crashes_after_deposition(engine, make))
    assert len(schedules) > 100
    assert [] == [schedule for schedule in schedules if not delivers(engine, schedule, make())]


@pytest.mark.row("S08")
def test_the_explorer_convicts_a_store_that_overwrites(engine: Any) -> None:
    def make() -> ObjectCheckpointStorage:
        return never_tried(Overwriting(in_memory()))

    schedules = crashes_after_deposition(engine, make)
    convicting = next((schedule for schedule in schedules if not delivers(engine, schedule, make())), "")
    assert convicting, "after some crash rows are lost"


# -- stores that are refused -------------------------------------------------------------------------


@pytest.mark.row("S08")
@pytest.mark.parametrize(
    ("wrong", "evidence"),
    [
        (Overwriting, "of 2 creations of probe/7-0, one after the other, 2 succeeded, not 1"),
        (CreatingNothing, "of 2 creations of probe/7-0, one after the other, none succeeded, not 1"),
        (LastWins, "creation 1 of probe/7-0 succeeded, and a reader found b'creation 2'"),
    ],
)
def test_a_store_that_does_not_keep_the_promise_is_refused_in_words(wrong: type[Objects], evidence: str) -> None:
    objects = wrong(in_memory())
    with pytest.raises(UnfitStore) as refused:
        refuse_unfit_store(objects, generation=7)
    assert evidence in str(refused.value)
    assert "Two coordinators could both decide there" in str(refused.value)
    assert "Name a store that honours conditional creation" in str(refused.value)
    assert ([], []) == tuple(map(list, objects.list("probe"))), "nothing is left of the trial"


@pytest.mark.row("S08")
def test_a_store_that_looks_and_writes_then_is_refused_if_others_come_in_between() -> None:
    together = Barrier(4)
    is_tried_at_once = iter([False, *[True] * 8])

    def between() -> None:
        if next(is_tried_at_once):
            together.wait()

    with pytest.raises(UnfitStore, match="of 4 creations of probe/7-1, at once, 4 succeeded, not 1"):
        refuse_unfit_store(LookingFirst(in_memory(), between=between), generation=7)


@pytest.mark.row("S08")
def test_a_server_that_ignores_conditions_is_refused_before_anything_is_decided(monkeypatch: Any) -> None:
    with s3_server(ignores_conditions=True) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        url = server.make_bucket("old-gateway")
        with pytest.raises(UnfitStore, match=f"{url} cannot keep checkpoints: of 2 creations .* 2 succeeded, not 1"):
            ObjectCheckpointStorage(open_objects(url)).claim_generation()
        assert not ObjectCheckpointStorage(open_objects(url)).complete()


@pytest.mark.row("S08")
def test_a_store_that_cannot_create_conditionally_is_refused() -> None:
    with pytest.raises(UnfitStore, match="cannot do what checkpoints need: "):
        open_objects("http://localhost:1/x").create("log/1", b"")


@pytest.mark.row("S08")
def test_a_store_that_is_tried_once_is_not_tried_by_the_next_generation_of_one_process() -> None:
    requests: list[str] = []
    storage = ObjectCheckpointStorage(Stepped(in_memory(), requests.append))
    tried = []
    for _ in range(2):
        storage.claim_generation()
        tried.append(sum(request.startswith("create probe/") for request in requests))
    assert [10, 10] == tried
