"""Checkpoints as objects at a URL: decided by one object, fenced by its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from sinkproof.reference_engine.checkpointing.object_storage import DecisionInDoubt, ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_store import open_objects
from sinkproof.reference_engine.checkpointing.open_storage import open_storage
from sinkproof.sink_adapters.protocol import Fenced
from tests.support.object_stores import (
    Failing,
    Objects,
    Stepped,
    Unreadable,
    in_memory,
    no_answer,
    reply_lost,
    sent_twice,
)

Reopen = Callable[..., ObjectCheckpointStorage]


@pytest.fixture(params=["memory", "folder", "S3"])
def reopen(request: Any, tmp_path: Path) -> Reopen:
    """Another process, at the same URL. A folder here stands for a store without renames."""
    if request.param == "memory":
        objects: Any = in_memory()
        return lambda **options: ObjectCheckpointStorage(objects, **options)
    url = f"file://{tmp_path}/objects" if request.param == "folder" else request.getfixturevalue("bucket_url")
    return lambda **options: ObjectCheckpointStorage(open_objects(url), **options)


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
@pytest.mark.row("S09")
@pytest.mark.parametrize("claims", [1, 2, 5])
def test_a_superseded_coordinator_that_reads_stays_superseded(reopen: Reopen, claims: int) -> None:
    """It knows the newest line then, and must not write after it."""
    old = reopen()
    old.claim_generation()
    take(old, 1)
    for _ in range(claims):
        reopen().claim_generation()
    assert [1] == old.complete()
    assert old.latest() is not None
    with pytest.raises(Fenced):
        take(old, 2)
    with pytest.raises(Fenced):
        old.discard(0)


@pytest.mark.row("S08")
def test_two_concurrent_claims_get_two_generations(reopen: Reopen, monkeypatch: Any) -> None:
    first, second = reopen(), reopen()
    newest = first._newest

    def read_too_early() -> Any:
        line = newest()
        if not second.generation:
            second.claim_generation()
        return line

    monkeypatch.setattr(first, "_newest", read_too_early)
    assert 700_002 == first.claim_generation()
    assert 700_001 == second.generation


@pytest.mark.row("S08")
@pytest.mark.parametrize("ending", [reply_lost, sent_twice])
def test_a_decision_with_a_lost_reply_is_a_decision(reopen: Reopen, ending: Any) -> None:
    storage = reopen()
    storage.claim_generation()
    storage.objects = Failing(storage.objects, ending)
    take(storage, 1)
    take(storage, 2)
    assert [2] == reopen().complete()


@pytest.mark.row("S08")
def test_a_decision_that_comes_late_finds_its_place_taken(reopen: Reopen) -> None:
    """The coordinator has aborted the checkpoint, so it must never be complete."""
    storage = reopen()
    storage.claim_generation()
    storage.objects = objects = Failing(storage.objects)
    objects.endings = [objects.is_late]
    with pytest.raises(TimeoutError):
        take(storage, 1)
    assert [False] == [late() for late in objects.late]
    assert reopen().latest() is None
    take(storage, 2)
    assert [2] == reopen().complete()


@pytest.mark.row("S08")
def test_a_decision_that_cannot_be_ruled_out_is_reported_neither_made_nor_failed(reopen: Reopen) -> None:
    storage = reopen()
    storage.claim_generation()
    storage.objects = Failing(storage.objects, no_answer, no_answer)
    with pytest.raises(DecisionInDoubt, match="does not say whether line 2 is there"):
        take(storage, 1)
    successor = reopen()
    assert storage.generation + 1 == successor.claim_generation()
    assert successor.latest() is None


@pytest.mark.row("S08")
@pytest.mark.parametrize("ending", [reply_lost, sent_twice])
def test_a_decision_that_is_there_and_cannot_be_read_is_not_reported_as_failed(reopen: Reopen, ending: Any) -> None:
    storage = reopen()
    storage.claim_generation()
    storage.objects = Unreadable(storage.objects, "log/000000000002", ending)
    with pytest.raises(DecisionInDoubt, match="does not say what line 2 holds"):
        take(storage, 1)
    assert [1] == reopen().complete()


@pytest.mark.row("S08")
def test_a_store_that_does_not_answer_makes_no_checkpoint_damaged(reopen: Reopen) -> None:
    """An older one would be restored, and rows sent twice."""
    storage = reopen(retained=2)
    storage.claim_generation()
    take(storage, 1)
    take(storage, 2)
    successor = reopen(retained=2)
    successor.objects = Unreadable(successor.objects, "chk-2-")
    with pytest.raises(TimeoutError):
        successor.latest()


@pytest.mark.row("S08")
def test_folders_of_others_are_left_alone(reopen: Reopen) -> None:
    storage = reopen()
    storage.objects.put("chk-backup/kept", b"of the user")
    storage.claim_generation()
    assert b"of the user" == storage.objects.read("chk-backup/kept")


@pytest.mark.row("S08")
def test_a_generation_that_is_claimed_with_a_lost_reply_is_not_used(reopen: Reopen) -> None:
    """Another coordinator may have written the same."""
    storage = reopen()
    storage.objects = Failing(storage.objects, sent_twice)
    assert 700_002 == storage.claim_generation()


@pytest.mark.row("S08")
def test_a_snapshot_that_cannot_be_removed_does_not_undo_the_decision(reopen: Reopen) -> None:
    class Keeping(Objects):
        def delete(self, names: Sequence[str]) -> None:
            raise PermissionError(1, "no deletions here")

    said: list[str] = []
    storage = reopen(say=said.append)
    storage.claim_generation()
    storage.objects = Keeping(storage.objects)
    take(storage, 1)
    take(storage, 2)
    assert [2] == reopen().complete()
    assert ["could not remove chk-1-700001"] == [text[:29] for text in said]


@pytest.mark.row("S08")
def test_a_superseded_coordinator_and_its_attempts_remove_nothing_of_their_successors(reopen: Reopen) -> None:
    old, new = reopen(), reopen()
    old.claim_generation()
    old.store(1, "sink[0]", {"sink": b"s"})
    new.claim_generation()
    kept = new.store(1, "sink[0]", {"sink": b"s"})
    old.discard(1)
    new.decide(CheckpointRecord(1, False, {"sink[0]": kept}, {"sink": 1}))
    restored = reopen().latest()
    assert restored is not None
    assert {"sink": b"s"} == restored.states["sink[0]"]


@pytest.mark.row("S08")
def test_a_new_generation_removes_what_the_dead_have_left(reopen: Reopen) -> None:
    storage = reopen()
    storage.claim_generation()
    take(storage, 1)
    storage.store(2, "sink[0]", {"sink": b"undecided"})
    reopen().claim_generation()
    assert ["chk-1-700001", "log"] == list(reopen().objects.list("")[0])
    assert [1] == reopen().complete()


@pytest.mark.row("S08")
@pytest.mark.parametrize("decisions", [1, 2, 3, 4, 7, 8, 9])
def test_the_newest_line_is_found_without_reading_the_others(decisions: int) -> None:
    objects = in_memory()
    storage = ObjectCheckpointStorage(objects)
    storage.claim_generation()
    for checkpoint_id in range(1, decisions + 1):
        take(storage, checkpoint_id)
    reads: list[str] = []
    stepped = Stepped(objects, lambda request: reads.append(request) if request.startswith("read log") else None)
    assert [decisions] == ObjectCheckpointStorage(stepped).complete()
    assert [f"read log/{decisions + 1:012d}"] == reads


@pytest.mark.row("S08")
def test_a_torn_line_keeps_its_number_and_is_passed_over_aloud(reopen: Reopen) -> None:
    said: list[str] = []
    storage = reopen(say=said.append)
    storage.claim_generation()
    take(storage, 1)
    storage.objects.put("log/000000000003", b'{"generation": 7000')
    assert [1] == storage.complete()
    assert "line 3 of the log at" in said[0]
    assert 700_002 == reopen(say=said.append).claim_generation()


@pytest.mark.row("S08")
def test_a_damaged_one_is_refused_and_the_one_before_it_used_aloud(reopen: Reopen) -> None:
    said: list[str] = []
    storage = reopen(retained=2, say=said.append)
    storage.claim_generation()
    take(storage, 1, state=b"whole")
    reference = take(storage, 2, state=b"damaged").states["sink[0]"]
    storage.objects.put(f"chk-2-700001/{reference.file}", b"something else")
    restored = storage.latest()
    assert restored is not None
    assert 1 == restored.checkpoint_id
    storage.latest()
    assert ["checkpoint 2 is damaged and passed over"] == [text[:39] for text in said], "once"
    storage.claim_generation()
    take(storage, 2, state=b"again")
    assert (storage.latest() or restored).states == {"sink[0]": {"sink": b"again"}}
    for folder in ("chk-1-700001", "chk-2-700002"):
        storage.objects.delete([f"{folder}/{name}" for name in storage.objects.list(folder)[1]])
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
    assert (["chk-1-700001", "log"], [1]) == (list(storage.objects.list("")[0]), storage.complete())
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
        ("s3://bucket/checkpoints", ObjectCheckpointStorage),
    ):
        assert kind is type(open_storage(CheckpointConfiguration(checkpoint_storage=where)))
    assert {"plain", "with space"} == {folder.name for folder in tmp_path.iterdir()}
    for where, why in (
        ("carrier-pigeon://coop", "cannot be opened .*: write s3://BUCKET/FOLDER"),
        ("memory://checkpoints", "would end with the process that wrote them"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            open_storage(CheckpointConfiguration(checkpoint_storage=where))


@pytest.mark.row("S10")
def test_checkpoints_retained_reaches_every_kind_of_storage(tmp_path: Path, bucket_url: str) -> None:
    for where in (str(tmp_path), bucket_url):
        storage: Any = open_storage(CheckpointConfiguration(checkpoint_storage=where, checkpoints_retained=2))
        storage.claim_generation()
        for checkpoint_id in (1, 2, 3):
            take(storage, checkpoint_id)
        assert [2, 3] == storage.complete()
