"""The folder that sinks write to is copied and cleared while a thread of a dead attempt still writes to it."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sinkproof.subject.scratch import FrozenFile, clear_folder, freeze_folder, thaw_folder

ROUNDS = 300


@contextmanager
def a_thread_renames(folder: Path) -> Iterator[None]:
    """Each file has another name a moment later."""
    over = threading.Event()

    def rename() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                (folder / "below").mkdir(exist_ok=True)
                (folder / "below" / f"{number}.part").write_bytes(b"rows")
                (folder / "below" / f"{number}.part").rename(folder / "below" / f"{number % 7}.done")
            except OSError:
                continue

    thread = threading.Thread(target=rename)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_a_folder_is_cleared_while_a_thread_renames_files(tmp_path: Path) -> None:
    with a_thread_renames(tmp_path):
        for _ in range(ROUNDS):
            while not any(tmp_path.iterdir()):
                pass
            clear_folder(tmp_path)
    clear_folder(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_is_copied_while_a_thread_renames_files(tmp_path: Path) -> None:
    with a_thread_renames(tmp_path):
        copies = [freeze_folder(tmp_path) for _ in range(ROUNDS)]
    thaw_folder(tmp_path, {"kept": None, "kept/rows": b"rows"})
    assert {"kept": None, "kept/rows": b"rows"} == freeze_folder(tmp_path)
    assert {name.partition("/")[0] for copy in copies for name in copy} <= {"below"}


def test_a_copy_of_a_folder_has_the_permissions_of_its_files(tmp_path: Path) -> None:
    for name, permissions in (("staged", 0o600), ("published", 0o644), ("open", 0o666)):
        (tmp_path / name).write_bytes(b"rows")
        (tmp_path / name).chmod(permissions)
    frozen = freeze_folder(tmp_path)
    assert b"rows" == frozen["published"] != frozen["staged"] != frozen["open"]
    assert frozen == pickle.loads(pickle.dumps(frozen))
    clear_folder(tmp_path)
    thaw_folder(tmp_path, frozen)
    assert frozen == freeze_folder(tmp_path)
    assert [0o600, 0o644] == [(tmp_path / name).stat().st_mode & 0o777 for name in ("staged", "published")]


def test_a_copy_of_a_folder_has_the_attributes_of_its_files(tmp_path: Path) -> None:
    file = tmp_path / "marked"
    file.write_bytes(b"rows")
    try:
        os.setxattr(file, "user.batch", b"7")
    except OSError as error:
        pytest.skip(f"files in {tmp_path} have no attributes: {error.strerror}")
    frozen = freeze_folder(tmp_path)
    assert b"rows" != frozen["marked"] != FrozenFile(b"rows", 0o644, {"user.batch": b"8"})
    clear_folder(tmp_path)
    thaw_folder(tmp_path, frozen)
    assert frozen == freeze_folder(tmp_path)
    assert b"7" == os.getxattr(file, "user.batch")
