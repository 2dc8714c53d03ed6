"""Of several coordinators on one checkpoint folder only the newest changes anything, wherever the others stood."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.sink_adapters.protocol import Fenced

SINK = "sink[0]"
Open = Callable[..., FolderCheckpointStorage]


@pytest.fixture
def reopen(tmp_path: Path) -> Open:
    """A new process on the same folder, with the next generation."""

    def open_and_claim(**options: Any) -> FolderCheckpointStorage:
        storage = FolderCheckpointStorage(tmp_path / "checkpoints", **options)
        storage.claim_generation()
        return storage

    return open_and_claim


def take(storage: FolderCheckpointStorage, checkpoint_id: int, state: bytes) -> None:
    """One whole checkpoint."""
    kept = {SINK: storage.store(checkpoint_id, SINK, {"sink": state})}
    storage.decide(CheckpointRecord(checkpoint_id, False, kept, {"sink": 1}))


def files(storage: FolderCheckpointStorage) -> list[str]:
    return sorted(str(path.relative_to(storage.folder)) for path in storage.folder.rglob("*"))


def test_every_generation_is_greater_than_all_before_it_and_never_comes_again(reopen: Open) -> None:
    assert [700_001, 700_002, 700_003] == [reopen().generation for _ in range(3)]


def test_of_two_concurrent_claims_only_the_greater_generation_can_write(engine: Any, reopen: Open) -> None:
    """The rival claims at each step of our own claim in turn."""
    for at in range(1, engine.count_steps(lambda reach: reopen(reach=reach)) + 1):
        rivals: list[FolderCheckpointStorage] = []
        try:
            claimants = [reopen(reach=engine.Steps(rival_at(at, rivals, reopen))), *rivals]
        except Fenced:
            claimants = rivals
        *others, greatest = sorted(claimants, key=lambda storage: storage.generation)
        for other in others:
            assert other.generation < greatest.generation, f"claimed at step {at}"
            with pytest.raises(Fenced):
                other.store(1, SINK, {"sink": b""})
        assert greatest.store(1, SINK, {"sink": b""})


def rival_at(at: int, rivals: list[FolderCheckpointStorage], reopen: Open) -> Callable[[int], None]:
    """For `Steps`: at this step a rival claims, and joins the list."""

    def claim(step: int) -> None:
        if step == at:
            rivals.append(reopen())

    return claim


@pytest.mark.parametrize(
    "deed",
    [
        lambda old: old.store(2, SINK, {"sink": b"of a zombie"}),
        lambda old: take(old, 2, b""),
        lambda old: old.discard(1),
    ],
)
def test_a_superseded_coordinator_can_change_nothing(reopen: Open, deed: Callable[[Any], Any]) -> None:
    old = reopen()
    take(old, 1, b"")
    new = reopen()
    before = files(new)
    with pytest.raises(Fenced, match=r"generation 700001 .* was superseded"):
        deed(old)
    assert before == files(new)


def test_it_is_fenced_between_any_two_steps(engine: Any, reopen: Open) -> None:
    """The old coordinator is suspended at each step of its decision in turn, while a new one takes the same id."""

    def reporting(storage: FolderCheckpointStorage, reach: Callable[[str], None]) -> FolderCheckpointStorage:
        return FolderCheckpointStorage(storage.folder, reach=reach, generation=storage.generation)

    steps = engine.count_steps(lambda reach: take(reporting(reopen(), reach), 1, b"old"))
    for suspended_at in range(1, steps + 1):
        storage = reopen()
        storage.discard(0)
        news: list[FolderCheckpointStorage] = []

        try:
            take(reporting(storage, engine.Steps(newcomer_at(suspended_at, news, reopen))), 1, b"old")
        except Fenced:
            assert {"sink": b"new"} == news[0].load(1).states[SINK]
        else:
            assert {"sink": b"old"} == news[0].load(1).states[SINK], "it was decided before the newcomer came"


def newcomer_at(at: int, news: list[FolderCheckpointStorage], reopen: Open) -> Callable[[int], None]:
    """For `Steps`: a newcomer starts from what is decided, or takes that checkpoint itself."""
    claim = rival_at(at, news, reopen)

    def take_over(step: int) -> None:
        claim(step)
        if step == at and news[0].latest() is None:
            take(news[0], 1, b"new")

    return take_over


def test_a_worker_stores_for_the_generation_that_it_is_given(reopen: Open) -> None:
    coordinator = reopen()
    worker = FolderCheckpointStorage(coordinator.folder, generation=coordinator.generation)
    kept = worker.store(1, SINK, {"sink": b"a worker's"})
    coordinator.decide(CheckpointRecord(1, False, {SINK: kept}, {"sink": 1}))
    assert {"sink": b"a worker's"} == coordinator.load(1).states[SINK]
    with pytest.raises(ValueError, match="claim a generation first"):
        FolderCheckpointStorage(coordinator.folder).store(2, SINK, {})
