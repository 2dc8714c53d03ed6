"""What a checkpoint's files hold, and what happens when the disk refuses to hold it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkproof.reference_engine.checkpointing.checkpoint_encoding_and_digests import (
    Reference,
    decode_states,
    digest_of,
    encode_snapshot,
    encode_states,
)
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import DamagedCheckpoint

by_key_group = st.dictionaries(st.integers(0, 127), st.binary(max_size=20))
any_states = st.dictionaries(st.text(max_size=8), st.binary(max_size=40) | by_key_group, max_size=4)


@pytest.mark.slow
@pytest.mark.row("S08")
@given(any_states)
def test_states_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, states: Any) -> None:
    data = encode_states(states)
    path = tmp_path_factory.getbasetemp() / "round trip.state"
    path.write_bytes(data)
    assert states == decode_states(path, Reference(path.name, digest_of(data), len(data)))


@pytest.mark.parametrize("version", ["of today", "earlier"])
def test_a_changed_byte_is_noticed_also_under_the_digest_of_earlier_versions(tmp_path: Path, version: str) -> None:
    reference, data = encode_snapshot("sink[0]", {"sink": b"rows"})
    known = reference if version == "of today" else reference._replace(digest=digest_of(data))
    path = tmp_path / reference.file
    path.write_bytes(data)
    assert {"sink": b"rows"} == decode_states(path, known)
    path.write_bytes(data.replace(b"rows", b"Rows"))
    with pytest.raises(DamagedCheckpoint, match="changed since it was written"):
        decode_states(path, known)


@pytest.mark.row("S08")
def test_states_take_little_more_room_than_their_bytes() -> None:
    assert len(encode_states({"sink": bytes(100_000), "count": {3: bytes(1000)}})) < 101_100


@pytest.mark.row("S08")
@pytest.mark.parametrize("state", ["text", {3: "text"}, None, 7])
def test_what_is_not_bytes_is_refused_when_it_is_written_and_not_when_it_is_needed(state: Any) -> None:
    with pytest.raises(TypeError, match=r"the state of 'sink' is .*: a checkpoint holds bytes"):
        encode_states({"sink": state})


@pytest.mark.parametrize("data", [b"", b"\x80\x04pickled", b'sinkproof/states/1\n[["sink",null,[9]]]\nshort'])
def test_a_file_of_another_kind_is_refused_although_its_digest_is_right(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "sink.state"
    path.write_bytes(data)
    with pytest.raises(DamagedCheckpoint, match=r"sink\.state does not hold states"):
        decode_states(path, Reference(path.name, digest_of(data), len(data)))


# -- a disk that refuses ------------------------------------------------------------------------


def full_disk(at: int) -> Callable[[str], None]:
    """A `reach` that finds the disk full at its `at`-th step, once."""
    steps = iter(range(1, 100_000))

    def reach(point: str) -> None:
        if next(steps) == at:
            raise OSError(errno.ENOSPC, "No space left on device")

    return reach


def taken(storage: FolderCheckpointStorage, checkpoint_id: int) -> CheckpointRecord:
    kept = {"sink[0]": storage.store(checkpoint_id, "sink[0]", {"sink": bytes([checkpoint_id])})}
    record = CheckpointRecord(checkpoint_id, False, kept, {"sink": 1})
    storage.decide(record)
    return record


@pytest.mark.row("S08")
def test_every_file_is_forced_to_disk_before_its_name_and_its_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss between any two of these steps finds whole files, or none; only the disk itself could show more."""
    storage = FolderCheckpointStorage(tmp_path)
    storage.claim_generation()
    steps: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def seen(path: Any) -> str:
        name = str(Path(path).relative_to(tmp_path))
        return re.sub(r"attempt-\d+/.*", "temporary", re.sub(r"-[0-9a-f]{16}", "", name))

    def spy_on_fsync(descriptor: int) -> None:
        steps.append(("fsync", seen(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def spy_on_rename(old: Any, new: Any) -> None:
        steps.append(("rename", seen(new)))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", spy_on_fsync)
    monkeypatch.setattr(os, "rename", spy_on_rename)
    taken(storage, 1)
    in_place = [("fsync", "attempt-700001"), ("fsync", "chk-1")]
    assert [
        *[("fsync", "temporary"), ("fsync", "."), ("rename", "chk-1/sink[0].state"), *in_place],
        *[("fsync", "temporary"), ("rename", "chk-1/decision.json"), *in_place],
    ] == steps


@pytest.mark.row("S08")
def test_a_decision_either_fails_and_is_not_there_or_returns_and_is(tmp_path: Path) -> None:
    outcomes = set()
    for at in range(1, 40):
        said: list[str] = []
        claimed = FolderCheckpointStorage(tmp_path / str(at))
        claimed.claim_generation()
        taken(claimed, 1)
        storage = FolderCheckpointStorage(
            claimed.folder, generation=claimed.generation, reach=full_disk(at), say=said.append
        )
        try:
            taken(storage, 2)
            outcome = "said" if said else "done"
        except OSError:
            outcome = "failed"
        assert (1 if outcome == "failed" else 2) == max(claimed.complete()), f"full at step {at}"
        outcomes.add(outcome)
    assert {"failed", "said", "done"} == outcomes


@pytest.mark.row("S08")
@pytest.mark.row("S09")
def test_a_full_disk_costs_a_checkpoint_and_not_a_row(engine: Any, tmp_path: Path) -> None:
    expected = engine.rows_of(engine.input())
    noted = set()
    for at in range(9, 130, 3):  # a generation takes the first 8 steps
        storage = FolderCheckpointStorage(tmp_path / str(at), reach=full_disk(at), say=lambda text: None)
        run = engine.run(storage=storage)
        assert (True, expected) == (run.simulation.finished, run.counts), f"full at step {at}"
        noted |= {what for _, _, _, what, _ in run.simulation.history}
    assert {"not durable", "raised"} <= noted


def test_a_folder_that_cannot_be_is_refused_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot keep checkpoints there \(.*\); name a folder") as refused:
        FolderCheckpointStorage(tmp_path / "file" / "checkpoints")
    assert str(tmp_path / "file" / "checkpoints") == refused.value.filename


def test_retaining_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="retained=0 is impossible"):
        FolderCheckpointStorage(tmp_path, retained=0)
