"""What changed in the target's folder, in words; a record of the changes of one run is in test_close_ups.py."""

from __future__ import annotations

import os
from pathlib import Path

from sinkproof.judging.target_log import again_first, differences, listed, settled, short


def test_every_change_of_a_folder_is_told(tmp_path: Path) -> None:
    for name in ("grown", "gone", "moved", "pending", "final", "replaced", "cut"):
        (tmp_path / name).write_text("text")
    before = listed(tmp_path)
    (tmp_path / "grown").write_text("longer text")
    (tmp_path / "gone").unlink()
    (tmp_path / "moved").rename(tmp_path / "there")
    (tmp_path / "pending").rename(tmp_path / "final")
    (tmp_path / "other").write_text("text")
    os.replace(tmp_path / "other", tmp_path / "replaced")
    (tmp_path / "cut").write_text("")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/new").write_text("")
    assert [
        "cuts cut",
        "creates deep/new",
        "renames pending to final, and replaces it",
        "writes grown",
        "replaces replaced",
        "renames moved to there",
        "removes gone",
    ] == differences(before, listed(tmp_path))
    assert [] == differences(before, before)


def test_a_file_that_was_only_written_anew_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one")
    before = {name: (inode, size, 0) for name, (inode, size, _) in listed(tmp_path).items()}
    assert ["overwrites log"] == differences(before, listed(tmp_path))


def test_a_new_file_is_not_told_twice() -> None:
    assert ["creates a", "writes b"] == settled(["creates a", "writes a", "writes b"])


def test_of_a_long_name_both_ends_are_kept() -> None:
    assert "part-0" == short("part-0")
    assert "89481b96-dc…8814ec.json" == short("89481b96-dc18-4a1f-9d0e-000348814ec.json")


def test_a_target_without_a_folder_has_no_files(tmp_path: Path) -> None:
    assert {} == listed(tmp_path / "nowhere")


def test_rows_that_were_seen_before_are_the_first_ones_of_those_that_appear() -> None:
    rows = [(0, 1), (0, 2), (0, 3), (0, 3)]
    assert [(0, 3), (0, 1), (0, 2), (0, 3)] == again_first(rows, [(0, 3)])
