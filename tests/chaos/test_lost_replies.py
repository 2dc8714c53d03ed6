"""What the supervisor carries out itself, so that the reply can be lost: as the kernel would have done it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sinkproof.chaos.system_calls.place_names import OutwardChange, Tracee
from sinkproof.chaos.system_calls.supervisor import NotifiedCall, _carried_out

NO_REPLACE, EXCHANGE = 1, 2


def carried_out(call: str, *paths: Path, flags: int = 0) -> int:
    """Its error. `paths`: what it makes comes first."""
    change = OutwardChange(call, "rows", tuple(map(str, paths)))
    return _carried_out(NotifiedCall(0, Tracee(0), (0, 0, 0, 0, flags), change))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    made = tmp_path / "old"
    made.write_text("old")
    return made


def test_a_rename_that_must_not_replace_anything_leaves_what_is_there(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.write_text("committed")
    assert errno.EEXIST == carried_out("renameat2", new, old, flags=NO_REPLACE)
    assert ("committed", "old") == (new.read_text(), old.read_text())
    assert 0 == carried_out("renameat2", new, old, flags=EXCHANGE)
    assert ("old", "committed") == (new.read_text(), old.read_text())
    assert 0 == carried_out("renameat2", new, old)
    assert "committed" == new.read_text()
    assert not old.exists()


@pytest.mark.parametrize(("name", "error"), [("empty", 0), ("full", errno.ENOTEMPTY), ("absent", errno.ENOENT)])
def test_a_folder_is_removed_if_it_is_empty(name: str, error: int, tmp_path: Path) -> None:
    (tmp_path / "full/inner").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    assert error == carried_out("unlinkat", tmp_path / name)
    assert (name == "full") == (tmp_path / name).exists()
