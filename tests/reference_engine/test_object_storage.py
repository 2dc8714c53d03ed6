"""Checkpoints as objects at a URL: decided by one object, fenced by its number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    ConfigurationError,
)
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import DamagedCheckpoint, MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.open_storage import open_storage
from sinkproof.sink_adapters.protocol import Fenced

Reopen = Callable[..., ObjectCheckpointStorage]


@pytest.fixture(params=["memory", "folder"])
def reopen(request: Any, tmp_path: Path) -> Reopen:
    """Another process, at the same URL. A folder here stands for a store without renames."""
    url = f"memory:/{tmp_path}" if request.param == "memory" else f"local://{tmp_path}/objects"
    return lambda **options: ObjectCheckpointStorage(url, **options)


def take(storage: Any, checkpoint_id: int, *, state: bytes = b"s") -> CheckpointRecord:
    kept = storage.store(checkpoint_id, "sink[0]", {"sink": state})
    record = CheckpointRecord(checkpoint_id, False, {"sink[0]": kept}, {"sink": 1})
    storage.decide(record)
    return record


@pytest.mark.row("S08")
def test_another_process_restores_what_was_decided(reopen: Reopen) -> None:
    storage = reopen()
    assert storage.latest() is None
    first = storage.claim_generation()
    take(storage, 1, state=b"old")
    take(storage, 2, state=b"new")
    restored = reopen().latest()
    assert restored is not None
    assert (2, {"sink[0]": {"sink": b"new"}}) == (restored.checkpoint_id, restored.states)
    assert first + 1 == reopen().claim_generation()
    assert [2] == reopen().complete(), "one is retained"


@pytest.mark.row("S08")
def test_without_a_decision_there_is_no_checkpoint(reopen: Reopen) -> None:
    storage = reopen()
    storage.claim_generation()
    storage.store(1, "sink[0]", {"sink": b"s"})
    assert reopen().latest() is None


@pytest.mark.row("S08")
@pytest.mark.row("S09")
def test_a_superseded_coordinator_decides_nothing_however_late_it_resumes(reopen: Reopen) -> None:
    old, new = reopen(), reopen()
    old.claim_generation()
    take(old, 1)
    kept = old.store(2, "sink[0]", {"sink": b"too late"})
    new.claim_generation()
    with pytest.raises(Fenced, match="superseded by a newer one"):
        old.decide(CheckpointRecord(2, False, {"sink[0]": kept}, {"sink": 1}))
    take(new, 2, state=b"in time")
    with pytest.raises(Fenced):
        old.decide(CheckpointRecord(3, False, {"sink[0]": kept}, {"sink": 1}))
    restored = reopen().latest()
    assert restored is not None
    assert {"sink": b"in time"} == restored.states["sink[0]"]


@pytest.mark.row("S08")
def test_two_concurrent_claims_get_two_generations(reopen: Reopen, monkeypatch: Any) -> None:
    first, second = reopen(), reopen()
    lines = first._lines()
    second.claim_generation()
    answers = [lines, second._lines()]
    monkeypatch.setattr(first, "_lines", lambda: answers.pop(0))
    assert second.generation + 1 == first.claim_generation()


@pytest.mark.row("S08")
def test_a_decision_with_a_lost_reply_is_a_decision(reopen: Reopen, monkeypatch: Any) -> None:
    storage = reopen()
    storage.claim_generation()
    create = storage._create

    def reply_lost(name: str, data: bytes) -> None:
        create(name, data)
        raise TimeoutError("no answer")

    monkeypatch.setattr(storage, "_create", reply_lost)
    take(storage, 1)
    assert [1] == reopen().complete()


@pytest.mark.row("S08")
def test_a_store_that_fails_makes_no_decision(reopen: Reopen, monkeypatch: Any) -> None:
    storage = reopen()
    storage.claim_generation()

    def refuse(name: str, data: bytes) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(storage, "_create", refuse)
    with pytest.raises(PermissionError):
        take(storage, 1)
    assert reopen().latest() is None


@pytest.mark.row("S08")
def test_a_damaged_one_is_refused_and_the_one_before_it_used_aloud(reopen: Reopen) -> None:
    said: list[str] = []
    storage = reopen(retained=2, say=said.append)
    storage.claim_generation()
    take(storage, 1, state=b"whole")
    reference = take(storage, 2, state=b"damaged").states["sink[0]"]
    storage._store.pipe_file(storage._at(f"chk-2/{reference.file}"), b"something else")
    restored = storage.latest()
    assert restored is not None
    assert 1 == restored.checkpoint_id
    storage.latest()
    assert ["checkpoint 2 is damaged and passed over"] == [text[:39] for text in said], "once"
    storage.claim_generation()
    take(storage, 2, state=b"again")
    assert (storage.latest() or restored).states == {"sink[0]": {"sink": b"again"}}
    storage._store.rm(storage._at("chk-2"), recursive=True)
    storage._store.rm(storage._at("chk-1"), recursive=True)
    with pytest.raises(DamagedCheckpoint, match=r"no checkpoint at .* can be trusted \(2 found\)"):
        storage.latest()


@pytest.mark.row("S07")
@pytest.mark.row("S08")
def test_what_is_discarded_is_gone_and_what_is_complete_stays(reopen: Reopen) -> None:
    storage = reopen()
    storage.claim_generation()
    take(storage, 1)
    storage.store(2, "sink[0]", {"sink": b"aborted"})
    storage.discard(2)
    storage.discard(1)
    assert ([], [1]) == (storage._names("chk-2"), storage.complete())
    storage.discard(0)
    assert reopen().latest() is None


@pytest.mark.row("S08")
def test_objects_and_memory_lead_to_the_same_run(engine: Any, reopen: Reopen) -> None:
    schedule = "sink[0].notify_complete.before#2=kill-job"
    runs = [engine.run(schedule=schedule, storage=storage) for storage in (reopen(), MemoryCheckpointStorage())]
    assert runs[0].simulation.history == runs[1].simulation.history
    assert runs[0].witness.visible_at_end == runs[1].witness.visible_at_end


@pytest.mark.row("S10")
@pytest.mark.row("S08")
def test_checkpoint_storage_says_where(tmp_path: Path) -> None:
    for where, kind in (
        ("memory", MemoryCheckpointStorage),
        (str(tmp_path / "plain"), FolderCheckpointStorage),
        (f"file://{tmp_path}/with%20space", FolderCheckpointStorage),
        ("memory://checkpoints", ObjectCheckpointStorage),
    ):
        assert kind is type(open_storage(CheckpointConfiguration(checkpoint_storage=where)))
    assert {"plain", "with space"} == {folder.name for folder in tmp_path.iterdir()}
    with pytest.raises(ConfigurationError, match="of no kind that fsspec knows"):
        open_storage(CheckpointConfiguration(checkpoint_storage="carrier-pigeon://coop"))


@pytest.mark.row("S10")
def test_checkpoints_retained_reaches_every_kind_of_storage(tmp_path: Path) -> None:
    for where in (str(tmp_path), f"memory:/{tmp_path}/retained"):
        storage: Any = open_storage(CheckpointConfiguration(checkpoint_storage=where, checkpoints_retained=2))
        storage.claim_generation()
        for checkpoint_id in (1, 2, 3):
            take(storage, checkpoint_id)
        assert [2, 3] == storage.complete()
