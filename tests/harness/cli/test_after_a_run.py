"""What a certification leaves, and what it says at its end: the folder where --out is not given, results not kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sinkproof.cli.certify_command import _asides, _new_folder
from sinkproof.reports.document import DocumentError


def test_commands_that_begin_at_the_same_moment_get_a_folder_each(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        made = [*pool.map(lambda _: _new_folder(), range(400))]
    assert 400 == len({*made})
    assert all(folder.is_dir() for folder in made)
    assert (tmp_path / ".sinkproof/latest").resolve() in [folder.resolve() for folder in made]
    assert [] == [*Path(".sinkproof").glob(".latest*")]


def test_an_unwritable_folder_is_reported_with_the_next_step(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".sinkproof").touch()
    with pytest.raises(DocumentError, match="cannot make the folder"):
        _new_folder()


def test_results_that_are_not_kept_are_named_together_where_the_reason_is_one() -> None:
    document: Any = {"failures": [], "unkept": ["a in the process shell: it calls", "b: it calls", "c: it has changed"]}
    assert ["not kept: a in the process shell, b: it calls", "not kept: c: it has changed"] == _asides(document)
