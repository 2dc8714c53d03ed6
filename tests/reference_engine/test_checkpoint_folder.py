"""Checkpoints in a folder: durable when they say so, never half there, refused when damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.checkpoint_encoding_and_digests import Reference
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import DamagedCheckpoint, MemoryCheckpointStorage

SOURCE, SINK = "source[0]", "sink[0]"


class Died(BaseException):
    """The process is no more. Nothing may catch this."""


def states_of(checkpoint_id: int) -> dict[str, Any]:
    return {
        SOURCE: {"source": f"[[0, {checkpoint_id}]]".encode(), "count": {3: b"three", 17: b""}},
        SINK: {"sink": bytes([checkpoint_id]) * 40},
    }


def take(storage: FolderCheckpointStorage, checkpoint_id: int, *, final: bool = False) -> CheckpointRecord:
    """One whole checkpoint; what the coordinator kept of it."""
    kept = {name: storage.store(checkpoint_id, name, states) for name, states in states_of(checkpoint_id).items()}
    record = CheckpointRecord(checkpoint_id, final, kept, {"source": 1, "sink": 1})
    storage.decide(record)
    return record


def expected(checkpoint_id: int, *, final: bool = False) -> CheckpointRecord:
    return CheckpointRecord(checkpoint_id, final, states_of(checkpoint_id), {"source": 1, "sink": 1})


Open = Callable[..., FolderCheckpointStorage]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def reopen(tmp_path: Path, said: list[str]) -> Open:
    """A new process on the same folder, with the next generation."""

    def open_and_claim(**options: Any) -> FolderCheckpointStorage:
        storage = FolderCheckpointStorage(tmp_path / "checkpoints", say=said.append, **options)
        storage.claim_generation()
        return storage

    return open_and_claim


def files(storage: FolderCheckpointStorage) -> list[str]:
    every = storage.folder.rglob("*")
    return sorted(str(path.relative_to(storage.folder)) for path in every if not path.name.startswith("generation-"))


@pytest.mark.row("S08")
def test_another_process_restores_what_was_decided(reopen: Open) -> None:
    assert reopen().latest() is None
    take(reopen(), 1)
    take(reopen(), 2, final=True)
    assert expected(2, final=True) == reopen().latest()


@pytest.mark.row("S08")
def test_without_a_decision_there_is_no_checkpoint(reopen: Open) -> None:
    storage = reopen()
    take(storage, 1)
    for name, states in states_of(2).items():
        storage.store(2, name, states)
    assert expected(1) == storage.latest()
    assert expected(1) == reopen().latest()


@pytest.mark.row("S08")
def test_the_coordinator_keeps_references_and_no_state(engine: Any, tmp_path: Path) -> None:
    source, storage = engine.input(), FolderCheckpointStorage(tmp_path)
    run = engine.run(plan=engine.plan(source=source), schedule="sink[1].write.after#3=kill-job", storage=storage)
    assert engine.rows_of(source) == run.counts
    kept = [state for record in run.witness.decided for state in record.states.values()]
    assert kept
    assert {Reference} == set(map(type, kept))
    assert [run.witness.decided[-1].checkpoint_id] == storage.complete()


@pytest.mark.row("S08")
def test_a_folder_and_memory_lead_to_the_same_run(engine: Any, tmp_path: Path) -> None:
    schedule = "seed=3 sink[0].snapshot.after#2=kill sink[1].write.before#9=kill-job"
    in_memory = engine.run(schedule=schedule, storage=MemoryCheckpointStorage())
    in_folder = engine.run(schedule=schedule, storage=FolderCheckpointStorage(tmp_path))
    assert in_memory.simulation.history == in_folder.simulation.history
    assert in_memory.witness.visible_at_end == in_folder.witness.visible_at_end


# -- dying anywhere -----------------------------------------------------------------------------


@pytest.mark.row("S08")
def test_dying_at_any_step_leaves_the_old_checkpoint_or_the_new_one_and_no_rubbish(
    engine: Any, reopen: Open, said: Any
) -> None:
    """Claim, two checkpoints, a discard, killed at each step: the next process finds what was decided, no more."""

    def life(reach: Callable[[str], None], decided: list[int]) -> None:
        storage = reopen(reach=reach)
        for checkpoint_id in (1, 2):
            take(storage, checkpoint_id)
            decided.append(checkpoint_id)
        storage.store(3, SINK, {"sink": b""})
        storage.discard(3)

    steps = engine.count_steps(lambda reach: life(reach, []))
    assert steps > 40
    for death in range(1, steps + 1):
        reopen().discard(0)
        decided = [0]
        with pytest.raises(Died):
            life(engine.Steps(lambda step, death=death: die_at(step, death)), decided)  # type: ignore[misc]
        heir = reopen()
        latest = heir.latest()
        found = latest.checkpoint_id if latest else 0
        assert found in (decided[-1], decided[-1] + 1), f"died at step {death}"
        assert latest is None or expected(found) == latest
        assert {f"attempt-{heir.generation}"} | {f"chk-{one}" for one in heir.complete()} == {
            name.split("/")[0] for name in files(heir)
        }
    assert [] == said


def die_at(step: int, death: int) -> None:
    if step == death:
        raise Died


# -- damage -------------------------------------------------------------------------------------


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-12] ^= 1
    path.write_bytes(data)


def swap_for_another_version(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": "sinkproof/checkpoint/2"}))


DAMAGES = [
    (SINK, Path.unlink, "cannot be read: No such file"),
    (SINK, tear, "has changed since it was written"),
    (SINK, flip, "has changed since it was written"),
    ("decision", tear, "is torn or was overwritten"),
    ("decision", flip, "has changed since it was written|is torn"),
    ("decision", swap_for_another_version, "of another version: its schema is 'sinkproof/checkpoint/2'"),
    ("decision", lambda path: path.write_text("[]"), "is torn or was overwritten"),
    ("decision", lambda path: path.write_text(path.read_text().replace("false", "true")), "has changed since"),
]


@pytest.mark.row("S08")
@pytest.mark.parametrize(("file", "damage", "why"), DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_aloud(
    reopen: Open, said: list[str], file: str, damage: Callable[[Path], Any], why: str
) -> None:
    storage = reopen(retained=2)
    take(storage, 1)
    take(storage, 2)
    damage(next((storage.folder / "chk-2").glob(file.replace("[", "[[]") + "*")))
    with pytest.raises(DamagedCheckpoint, match=why):
        storage.load(2)

    heir = reopen(retained=2)
    assert expected(1) == heir.latest()
    [text] = said
    assert "checkpoint 2 is damaged" in text
    assert "Checkpoint 1 is used instead" in text
    assert "is kept in damaged-2-" in text
    assert [True] == [path.is_dir() for path in heir.folder.glob("damaged-2-*")]
    take(heir, 2)  # its id is free again
    assert expected(2) == reopen().latest()
    assert len(said) == 1


@pytest.mark.row("S08")
def test_what_is_decided_after_passing_over_two_is_the_latest(reopen: Open) -> None:
    storage = reopen(retained=3)
    for checkpoint_id in (1, 2, 3):
        take(storage, checkpoint_id)
    for damaged in (2, 3):
        tear(storage.folder / f"chk-{damaged}" / "decision.json")
    heir = reopen(retained=3)
    assert expected(1) == heir.latest()
    take(heir, 2, final=True)
    assert expected(2, final=True) == reopen(retained=3).latest()


@pytest.mark.row("S08")
@pytest.mark.parametrize(("file", "damage", "why"), DAMAGES)
def test_when_none_is_left_it_is_refused_rather_than_begun_from_nothing(
    reopen: Open, file: str, damage: Callable[[Path], Any], why: str
) -> None:
    take(reopen(), 1)
    heir = reopen()
    damage(next((heir.folder / "chk-1").glob(file.replace("[", "[[]") + "*")))
    with pytest.raises(DamagedCheckpoint, match=rf"(?s)no checkpoint in .*(chk-1/).*({why}).*Bring the file back"):
        heir.latest()
    assert [1] == heir.complete(), "everything stays where it is, to be mended"


@pytest.mark.row("S08")
def test_a_reader_finds_the_newer_checkpoint_when_its_owner_removes_the_one_that_it_reads(reopen: Open) -> None:
    owner = reopen()
    take(owner, 1)

    class Reader(FolderCheckpointStorage):
        def load(self, checkpoint_id: int) -> CheckpointRecord:
            if checkpoint_id == 1:
                take(owner, 2)  # which removes the first one
            return super().load(checkpoint_id)

    said: list[str] = []
    assert expected(2) == Reader(owner.folder, say=said.append).latest()
    assert [] == said


def test_a_checkpoint_folder_under_another_name_is_noticed(reopen: Open) -> None:
    storage = reopen()
    take(storage, 1)
    (storage.folder / "chk-1").rename(storage.folder / "chk-5")
    with pytest.raises(DamagedCheckpoint, match="is the decision of checkpoint 1: its folder was renamed"):
        storage.load(5)


# -- what is kept, and what is not --------------------------------------------------------------


@pytest.mark.row("S10")
def test_the_last_k_are_retained(reopen: Open) -> None:
    storage = reopen(retained=2)
    for checkpoint_id in (1, 2, 3, 4):
        take(storage, checkpoint_id)
    assert [3, 4] == storage.complete()
    assert expected(3) == storage.load(3)
    storage.discard(0)
    assert ["attempt-700001"] == files(storage)


@pytest.mark.row("S07")
def test_an_aborted_checkpoint_leaves_nothing_behind_and_others_stay(reopen: Open) -> None:
    storage = reopen()
    take(storage, 1)
    before = files(storage)
    storage.store(2, SINK, {"sink": b"x"})
    storage.discard(2)
    assert before == files(storage)
    storage.store(2, SINK, {"sink": b"a straggler's"})  # after the abort: gone with the next complete one
    take(storage, 3)
    assert [3] == [number for number in range(9) if (storage.folder / f"chk-{number}").exists()]


@pytest.mark.row("S09")
def test_an_older_decision_after_a_newer_one_changes_nothing(reopen: Open) -> None:
    storage = reopen()
    older = {name: storage.store(1, name, states) for name, states in states_of(1).items()}
    take(storage, 2)
    storage.decide(CheckpointRecord(1, False, older, {}))
    assert (expected(2), [2]) == (storage.latest(), storage.complete())


@pytest.mark.row("S06")
def test_a_newer_one_that_is_still_pending_outlives_a_decision(reopen: Open) -> None:
    storage = reopen()
    newer = {name: storage.store(3, name, states) for name, states in states_of(3).items()}
    take(storage, 2)
    storage.decide(CheckpointRecord(3, False, newer, {"source": 1, "sink": 1}))
    assert expected(3) == storage.latest()


@pytest.mark.row("S11")
def test_a_named_retained_checkpoint_starts_a_job_of_its_own(reopen: Open, tmp_path: Path) -> None:
    storage = reopen(retained=3)
    for checkpoint_id in (1, 2, 3):
        take(storage, checkpoint_id)
    fresh = FolderCheckpointStorage(tmp_path / "another job")
    fresh.claim_generation()
    fresh.adopt(storage.load(2))
    assert expected(2) == fresh.latest()


def test_a_checkpoint_that_a_newer_one_replaces_while_a_reader_looks_is_not_taken_for_none(
    reopen: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader has listed the first one; it is decided that the second one is complete, and the first one removed."""
    owner = reopen()
    take(owner, 1)
    reader, numbers = FolderCheckpointStorage(owner.folder), FolderCheckpointStorage._numbers

    def listed_too_early(self: FolderCheckpointStorage, prefix: str) -> list[int]:
        found = numbers(self, prefix)
        if self is reader and found == [1]:
            take(owner, 2)
        return found

    monkeypatch.setattr(FolderCheckpointStorage, "_numbers", listed_too_early)
    assert expected(2) == reader.latest()
