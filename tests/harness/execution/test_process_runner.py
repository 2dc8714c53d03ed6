"""The fork server imports heavy libraries once, before it forks attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.libraries_at_start import libraries_of
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECT = """
import sys

from sinkproof import Claim

{imports}

class Subject:
    claims = Claim.NO_LOSS
    {libraries}

    def sink(self, scratch):
        (scratch.path / "loaded").write_text(" ".join(sys.modules))
        return Sink()

    def committed(self, scratch):
        return []


class Sink:
    def open(self, context): pass
    def write(self, batch): pass
    def snapshot(self, checkpoint_id): return b""
    def notify_complete(self, checkpoint_id): pass
"""


def subject(folder: Path, *, imports: str = "", libraries: str = "") -> str:
    file = folder / f"subject_{len(imports)}_{len(libraries)}.py"
    file.write_text(SUBJECT.format(imports=imports, libraries=libraries))
    return f"{file}:Subject"


@pytest.mark.parametrize(
    ("imports", "libraries", "found"),
    [
        ("", "", []),
        ("def write():\n    import pyarrow as pa", "", ["pyarrow", "pyarrow.parquet", "pandas"]),
        ("from pandas import DataFrame", "", ["pandas"]),
        ("import json", "libraries = ('sqlite3', 'there_is_no_such_module.part')", ["sqlite3"]),
    ],
)
def test_heavy_imports_of_a_file_are_found(imports: str, libraries: str, found: list[str], tmp_path: Path) -> None:
    assert found == libraries_of(load(subject(tmp_path, imports=imports, libraries=libraries)))


@pytest.mark.slow
def test_attempts_find_it_imported_and_nothing_of_the_engine(tmp_path: Path) -> None:
    contract = load(subject(tmp_path, imports="def later():\n    import pyarrow.parquet"))
    (tmp_path / "scratch").mkdir()
    scratch = Scratch(name="imports", path=tmp_path / "scratch", shell="process")
    with process_runner(contract, scratch) as runner:
        runner.run(Schedule())
        loaded = (scratch.path / "loaded").read_text().split()
    assert {"pyarrow.parquet", "pandas"} <= {*loaded}
    assert not [
        name for name in loaded if name.startswith(("sinkproof.judging", "sinkproof.reference_engine.dataflow"))
    ]


def loaded_in_the_second_run(folder: Path, imported_at: str) -> set[str]:
    """What a new attempt has imported after a run in which attempts had imported these modules when they wrote."""
    file = Path(subject(folder).rpartition(":")[0])
    file.write_text(file.read_text().replace("def write(self, batch): pass", f"def write(self, batch): {imported_at}"))
    scratch = Scratch(name="later", path=folder / "scratch", shell="process")
    scratch.path.mkdir()
    with process_runner(load(f"{file}:Subject"), scratch) as runner:
        runner.find_own_files()
        for _ in range(2):
            assert runner.run(Schedule()).finished
        return {*(scratch.path / "loaded").read_text().split()}


@pytest.mark.slow
def test_later_attempts_find_what_the_first_ones_have_imported_but_not_modules_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "of_the_user.py").write_text("")
    loaded = loaded_in_the_second_run(tmp_path, "import of_the_user, asyncio, xmlrpc.client")
    assert {"asyncio.events", "xmlrpc.client"} <= loaded
    assert "of_the_user" not in loaded


def test_what_starts_a_thread_when_it_is_imported_is_left_to_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "with_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    monkeypatch.syspath_prepend(installed)
    loaded = loaded_in_the_second_run(tmp_path, "import asyncio, xmlrpc.client, with_a_thread")
    assert loaded.isdisjoint({"with_a_thread", "xmlrpc.client"})


def test_a_sink_with_an_attribute_named_command_is_no_command(tmp_path: Path) -> None:
    contract = load(subject(tmp_path, libraries="command = ['true']"))
    (tmp_path / "scratch").mkdir()
    scratch = Scratch(name="sink", path=tmp_path / "scratch", shell="process")
    with process_runner(contract, scratch) as runner:
        runner.run(Schedule())
    assert (scratch.path / "loaded").exists()
